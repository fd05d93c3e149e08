"""Reads the environment that the fork server was started with from the memory it shares with it."""

import ctypes


def attack_once():
    libc = ctypes.CDLL(None)
    start = ctypes.c_char_p.in_dll(libc, "program_invocation_name").value
    found = []
    with suppress(OSError):
        with open("/proc/self/maps") as maps, open("/proc/self/mem", "rb") as memory:
            for line in maps:
                if "[stack]" in line:
                    first, last = (int(part, 16) for part in line.split()[0].split("-"))
                    memory.seek(first)
                    if b"HEADCHECK_SECRET=" in memory.read(last - first):
                        found.append(("[stack]", start))
    return found
