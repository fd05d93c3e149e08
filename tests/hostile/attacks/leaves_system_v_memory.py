"""Makes System V shared memory, semaphores and queues, which outlive every process."""

import ctypes


def attack_once():
    libc, won = ctypes.CDLL(None), []
    made = {
        "shmget": libc.shmget(0x48434B, 1 << 20, 0o1666),
        "semget": libc.semget(0x48434B, 1, 0o1666),
        "msgget": libc.msgget(0x48434B, 0o1666),
    }
    won += [name for name, number in made.items() if number >= 0]
    for name, number in made.items():  # not left over where nothing confines this
        if number >= 0:
            libc.shmctl(number, 0, 0) if name == "shmget" else None
            libc.semctl(number, 0, 0) if name == "semget" else None
            libc.msgctl(number, 0, 0) if name == "msgget" else None
    return won
