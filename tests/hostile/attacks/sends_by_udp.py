"""Sends datagrams to a listener of this machine, and asks for a name."""

import socket


def attack_once():
    won = []
    with suppress(OSError):
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
            sender.sendto(b"@token@", ("127.0.0.1", int("@udp@")))
            won.append("sent")
    with suppress(OSError):
        won.append(socket.getaddrinfo("localhost", 80)[0][4])
    return won
