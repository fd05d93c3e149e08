"""Changes its user, groups and capabilities."""

import ctypes
import functools
import os


@functools.cache
def attack():
    won, libc = [], ctypes.CDLL(None, use_errno=True)
    mine = os.getresuid()
    for uid in {0, 1, 1000, 65533} - set(mine):
        for change in (os.setuid, os.seteuid, os.setgid, os.setegid):
            try:
                change(uid)
                won.append((change.__name__, uid))
            except OSError:
                pass
    try:
        os.setgroups([0])
        won.append("setgroups")
    except OSError:
        pass
    for capability in range(41):
        if libc.prctl(23, capability, 0, 0, 0) == 1 and libc.prctl(47, 2, capability, 0, 0) == 0:
            won.append(("ambient capability", capability))
    return won
