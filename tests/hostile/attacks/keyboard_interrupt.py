"""Raises KeyboardInterrupt, which `except Exception` lets through."""


def attack():
    raise KeyboardInterrupt
