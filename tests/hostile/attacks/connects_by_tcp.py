"""Connects to a TCP listener of this machine, and tries to listen itself."""

import functools
import socket


@functools.cache
def attack():
    won = []
    for address in ("127.0.0.1", "::1"):
        try:
            with socket.create_connection((address, int("@tcp@")), timeout=1) as connection:
                connection.sendall(b"@token@")
                won.append("connected")
        except OSError:
            pass
    try:
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            won.append("listens")
    except OSError:
        pass
    return won
