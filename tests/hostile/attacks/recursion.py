"""Recurses without end."""


def attack():
    return attack()
