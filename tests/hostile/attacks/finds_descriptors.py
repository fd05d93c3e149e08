"""Looks for descriptors other than the standard ones and its one socket, and uses what it finds."""

import os
import stat


def attack_once():
    won, sockets = [], 0
    for fd in range(3, 4096):
        try:
            kind = stat.S_IFMT(os.fstat(fd).st_mode)
        except OSError:
            continue
        sockets += kind == stat.S_IFSOCK
        if kind != stat.S_IFSOCK or sockets > 1:
            won.append((fd, oct(kind)))
    return won
