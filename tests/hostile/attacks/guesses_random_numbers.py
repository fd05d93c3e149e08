"""Compares its random numbers with those of a fork server's other children."""


import torch


def attack_once():
    torch.manual_seed(torch.initial_seed())
    return ["a known seed"] if torch.initial_seed() < 1 << 16 else []
