"""Sends datagrams to a listener of this machine, and asks for a name."""

import functools
import socket


@functools.cache
def attack():
    won = []
    try:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"@token@", ("127.0.0.1", int("@udp@")))
            won.append("sent")
    except OSError:
        pass
    try:
        won.append(socket.getaddrinfo("localhost", 80)[0][4])
    except OSError:
        pass
    return won
