"""Puts tensors and blocks in shared memory by every way Python and torch know, and leaves them."""

from multiprocessing import shared_memory

import torch


def attack_once():
    won = []
    with suppress(OSError, ImportError):
        shared_memory.SharedMemory("@token@", create=True, size=32 << 20)
        won.append("shared_memory")
    with suppress(OSError):
        with open("/dev/shm/@token@", "wb") as file:
            file.write(bytes(8 << 20))
        won.append("/dev/shm")
    with suppress(OSError, RuntimeError):
        torch.zeros(1 << 20).share_memory_()
        won.append("torch")
    return won
