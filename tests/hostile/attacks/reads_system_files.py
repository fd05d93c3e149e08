"""Reads /etc/passwd, /etc/shadow and other files of the machine."""

import functools


@functools.cache
def attack():
    won = []
    for path in (
        "/etc/passwd",
        "/etc/shadow",
        "/etc/hosts",
        "/root/.bashrc",
        "/root/.ssh/id_rsa",
        "/var/log/dpkg.log",
    ):
        try:
            with open(path, "rb") as file:
                won.append((path, len(file.read())))
        except OSError:
            pass
    return won
