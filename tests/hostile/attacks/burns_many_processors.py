"""Asks torch for 64 threads and multiplies matrices on all of them for ever."""

import torch


def attack():
    torch.set_num_threads(64)
    many = torch.randn(700, 700)
    while True:
        many @ many
