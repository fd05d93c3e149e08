"""Changes its user, groups and capabilities."""

import ctypes
import os


def attack_once():
    won, libc = [], ctypes.CDLL(None, use_errno=True)
    mine = os.getresuid()
    for uid in {0, 1, 1000, 65533} - set(mine):
        for change in (os.setuid, os.seteuid, os.setgid, os.setegid):
            with suppress(OSError):
                change(uid)
                won.append((change.__name__, uid))
    with suppress(OSError):
        os.setgroups([0])
        won.append("setgroups")
    for capability in range(41):
        if libc.prctl(23, capability, 0, 0, 0) == 1 and libc.prctl(47, 2, capability, 0, 0) == 0:
            won.append(("ambient capability", capability))
    return won
