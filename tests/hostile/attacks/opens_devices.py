"""Opens terminals, disks and memory; reads /dev/zero and writes /dev/full."""

import os


def attack_once():
    won = []
    for path in (
        "/dev/tty",
        "/dev/console",
        "/dev/mem",
        "/dev/kmsg",
        "/dev/vda",
        "/dev/sda",
        "/dev/kvm",
        "/dev/fuse",
        "/dev/ptmx",
        "/dev/nvidiactl",
    ):
        for flags in (os.O_RDWR, os.O_RDONLY, os.O_WRONLY):
            with suppress(OSError):
                os.close(os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY))
                won.append(path)
                break
    for path in ("/dev/full", "/dev/zero", "/dev/random"):
        with suppress(OSError):
            with open(path, "r+b", buffering=0) as device:
                device.write(b"x")
                device.read(1 << 16)
    return won
