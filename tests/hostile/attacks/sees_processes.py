"""Finds out which processes there are without reading anything: by stat in /proc, by affinity."""

import os


def attack_once():
    won = []
    for pid in ("@grader@", "@server@"):
        with suppress(OSError):
            won.append((pid, os.stat(f"/proc/{pid}").st_uid))
        for ask in (os.sched_getaffinity, os.sched_getscheduler, os.getpgid, os.getsid):
            with suppress(OSError):
                ask(int(pid))
                won.append((pid, ask.__name__))
        for name in ("exe", "cwd", "root", "fd/0", "fd/1", "ns/net"):
            with suppress(OSError):
                won.append((name, os.readlink(f"/proc/{pid}/{name}")))
    return won
