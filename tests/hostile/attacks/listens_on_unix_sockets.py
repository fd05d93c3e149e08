"""Listens on unix sockets, for other submissions to find."""

import socket


def attack_once():
    won = []
    for address in ("\0@abstract@.mine", "/tmp/@token@.socket", "@arena@/@token@.socket"):
        with suppress(OSError):
            with socket.socket(socket.AF_UNIX) as listener:
                listener.bind(address)
                listener.listen()
                won.append(address)
    return won
