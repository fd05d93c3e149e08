"""Answers once for this question and a hundred times for those to come."""

import os


def attack():
    for fd in sockets():
        for number in range(1, 100):
            text = b'{"id": %d, "op": "ok", "meta": {"handle": 1}}' % number
            os.write(fd, frame(text))
