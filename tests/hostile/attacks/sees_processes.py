"""Finds out which processes there are without reading anything: by stat in /proc, by affinity."""

import functools
import os


@functools.cache
def attack():
    won = []
    for pid in ("@grader@", "@server@"):
        try:
            won.append((pid, os.stat(f"/proc/{pid}").st_uid))
        except OSError:
            pass
        for ask in (os.sched_getaffinity, os.sched_getscheduler, os.getpgid, os.getsid):
            try:
                ask(int(pid))
                won.append((pid, ask.__name__))
            except OSError:
                pass
        for name in ("exe", "cwd", "root", "fd/0", "fd/1", "ns/net"):
            try:
                won.append((name, os.readlink(f"/proc/{pid}/{name}")))
            except OSError:
                pass
    return won
