"""Computes 10 ** 10 ** 9: one bytecode, so no signal handler of Python's ever runs."""


def attack():
    10**10**9
