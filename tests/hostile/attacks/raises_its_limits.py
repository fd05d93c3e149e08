"""Raises its own resource limits, and its priority."""

import functools
import os
import resource


@functools.cache
def attack():
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
            try:
                resource.setrlimit(what, (wanted, wanted))
                won.append(name)
            except (OSError, ValueError):
                pass
    try:
        os.nice(-5)
        won.append("nice")
    except OSError:
        pass
    try:
        os.sched_setscheduler(0, os.SCHED_FIFO, os.sched_param(1))
        os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))
        won.append("real time")
    except OSError:
        pass
    return won
