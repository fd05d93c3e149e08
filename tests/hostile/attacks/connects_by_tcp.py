"""Connects to a TCP listener of this machine, and tries to listen itself."""

import socket


def attack_once():
    won = []
    for address in ("127.0.0.1", "::1"):
        with suppress(OSError):
            with socket.create_connection((address, int("@tcp@")), timeout=1) as connection:
                connection.sendall(b"@token@")
                won.append("connected")
    with suppress(OSError):
        with socket.socket() as listener:
            listener.bind(("127.0.0.1", 0))
            listener.listen()
            won.append("listens")
    return won
