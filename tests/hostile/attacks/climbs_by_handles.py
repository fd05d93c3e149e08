"""Opens files by handles and by mount calls, past any path."""

import ctypes
import os

libc = ctypes.CDLL(None, use_errno=True)


def attack_once():
    won = []
    handle = ctypes.create_string_buffer(136)
    ctypes.cast(handle, ctypes.POINTER(ctypes.c_uint))[0] = 128
    mount = ctypes.c_int()
    if libc.name_to_handle_at(-100, b"/etc/passwd", handle, ctypes.byref(mount), 0) == 0:
        won.append("name_to_handle_at")
        root = os.open("/", os.O_RDONLY)
        if libc.open_by_handle_at(root, handle, 0) >= 0:
            won.append("open_by_handle_at")
    if libc.syscall(428, -100, b"/", 1) >= 0:
        won.append("open_tree")
    if libc.syscall(430, b"tmpfs", 0) >= 0:
        won.append("fsopen")
    return won
