"""Makes namespaces of its own to be root in: unshare, setns, chroot, pivot_root, mount."""

import ctypes
import os
import platform

libc = ctypes.CDLL(None, use_errno=True)
PIVOT = 155 if platform.machine() == "x86_64" else 41


def attack_once():
    won = []
    for name, flag in (("user", 0x10000000), ("mount", 0x20000), ("network", 0x40000000)):
        if libc.unshare(flag) == 0:
            won.append(f"unshare {name}")
    if libc.mount(b"none", b"/tmp", b"tmpfs", 0, None) == 0:
        libc.umount2(b"/tmp", 2)
        won.append("mount")
    for kind in ("mnt", "net", "pid", "user"):
        for pid in ("1", "@grader@", str(os.getppid())):
            with suppress(OSError):
                fd = os.open(f"/proc/{pid}/ns/{kind}", os.O_RDONLY)
                if libc.setns(fd, 0) == 0:
                    won.append(f"setns {kind}")
    with suppress(OSError):
        os.chroot("/tmp")
        won.append("chroot")
    if libc.syscall(PIVOT, b"/tmp", b"/tmp") == 0:
        won.append("pivot_root")
    return won
