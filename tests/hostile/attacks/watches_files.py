"""Watches folders for what others do (inotify, fanotify, leases)."""

import ctypes


def attack_once():
    libc, won = ctypes.CDLL(None, use_errno=True), []
    fd = libc.inotify_init1(0)
    if fd >= 0 and libc.inotify_add_watch(fd, b"@arena@", 0xFFF) >= 0:
        won.append("inotify")
    if libc.fanotify_init(0, 0) >= 0:
        won.append("fanotify")
    return won
