"""Puts tensors and blocks in shared memory by every way Python and torch know, and leaves them."""

import functools
from multiprocessing import shared_memory

import torch


@functools.cache
def attack():
    won = []
    try:
        shared_memory.SharedMemory("@token@", create=True, size=32 << 20)
        won.append("shared_memory")
    except (OSError, ImportError):
        pass
    try:
        with open("/dev/shm/@token@", "wb") as file:
            file.write(bytes(8 << 20))
        won.append("/dev/shm")
    except OSError:
        pass
    try:
        torch.zeros(1 << 20).share_memory_()
        won.append("torch")
    except (OSError, RuntimeError):
        pass
    return won
