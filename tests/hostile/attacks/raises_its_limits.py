"""Raises its own resource limits, and its priority."""

import os
import resource


def attack_once():
    won = []
    for name in (
        "RLIMIT_AS",
        "RLIMIT_CPU",
        "RLIMIT_NPROC",
        "RLIMIT_FSIZE",
        "RLIMIT_NOFILE",
        "RLIMIT_CORE",
    ):
        what = getattr(resource, name)
        soft, hard = resource.getrlimit(what)
        if hard == resource.RLIM_INFINITY:
            continue
        for wanted in (resource.RLIM_INFINITY, 4 * hard + 4096):
            with suppress(OSError, ValueError):
                resource.setrlimit(what, (wanted, wanted))
                won.append(name)
    with suppress(OSError):
        os.nice(-5)
        won.append("nice")
    with suppress(OSError):
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        won.append("real time")
    return won
