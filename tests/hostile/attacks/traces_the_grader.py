"""Attaches to the grader and to its server with ptrace."""

import ctypes

def attack_once():
    libc, won = ctypes.CDLL(None, use_errno=True), []
    for pid in PIDS:
        for request in (16, 0x4206):  # PTRACE_ATTACH, PTRACE_SEIZE
            if libc.ptrace(request, pid, 0, 0) == 0:
                won.append(pid)
                libc.ptrace(17, pid, 0, 0)
    return won
