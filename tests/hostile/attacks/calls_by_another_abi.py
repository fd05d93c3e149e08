"""Calls the kernel by its 32-bit and x32 doors, where numbers mean other calls."""

import ctypes
import mmap
import platform

CODE = bytes.fromhex("b814000000cd80c3")  # mov eax, 20 (getpid of i386); int 0x80; ret


def attack_once():
    if platform.machine() != "x86_64":
        return []
    won, libc = [], ctypes.CDLL(None, use_errno=True)
    try:
        page = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    except OSError:
        page = None
    if libc.syscall(0x40000000 | 39) > 0:
        won.append("x32")
    if page is not None:
        page.write(CODE)
        at = ctypes.addressof(ctypes.c_char.from_buffer(page))
        if ctypes.CFUNCTYPE(ctypes.c_int)(at)() > 0:
            won.append("i386")
    return won
