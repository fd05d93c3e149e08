"""Listens on unix sockets, for other submissions to find."""

import functools
import socket


@functools.cache
def attack():
    won = []
    for address in ("\0@abstract@.mine", "/tmp/@token@.socket", "@arena@/@token@.socket"):
        try:
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(address)
                listener.listen()
                won.append(address)
        except OSError:
            pass
    return won
