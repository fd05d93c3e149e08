"""Takes back what ties it to its parents: the death signal, the dumpable flag, the session."""

import ctypes


def attack_once():
    libc, won = ctypes.CDLL(None, use_errno=True), []
    for name, option, value in (
        ("PR_SET_PDEATHSIG", 1, 0),
        ("PR_SET_DUMPABLE", 4, 1),
        ("PR_SET_CHILD_SUBREAPER", 36, 1),
        ("PR_SET_PTRACER", 0x59616D61, -1),
        ("PR_SET_SECUREBITS", 28, 0),
        ("PR_SET_MM", 35, 1),
    ):
        if libc.prctl(option, value, 0, 0, 0) == 0:
            won.append(name)
    return won
