"""Forks 200 processes that wait; the harness counts who is left over."""

import os
import time


def attack_once():
    won = []
    for _ in range(200):
        try:
            pid = os.fork()
        except OSError:
            break
        if pid == 0:
            time.sleep(20)
            os._exit(0)
        won = ["forked"]
    return won
