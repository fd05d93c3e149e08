"""Forks twice with a session of its own, to outlive its process and write a file later."""

import os
import time


def attack_once():
    try:
        pid = os.fork()
    except OSError:
        return []
    if pid:
        return ["forked"]
    os.setsid()
    if os.fork() == 0:
        time.sleep(1)
        open("@arena@/canary", "a").write("the daemon was here")
        time.sleep(20)
    os._exit(0)
