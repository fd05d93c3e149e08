"""Makes a POSIX message queue and a named semaphore, which outlive every process."""

import ctypes
import os


def attack_once():
    libc, won = ctypes.CDLL(None), []
    if libc.mq_open(b"/@token@", os.O_CREAT | os.O_RDWR, 0o666, None) >= 0:
        libc.mq_unlink(b"/@token@")
        won.append("queue")
    libc.sem_open.restype = ctypes.c_void_p
    if libc.sem_open(b"/@token@", os.O_CREAT, 0o666, 1):
        won.append("semaphore")
    return won
