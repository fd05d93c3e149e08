"""Reads a device that never ends into memory."""


def attack():
    with open("/dev/zero", "rb") as device:
        device.read()
