"""Leaves marks for a submission that is judged at the same time, and looks for that one's marks, processes and memory."""

import ctypes
import fcntl
import os
import socket

import torch

libc = ctypes.CDLL(None, use_errno=True)


def files():
    for place in ("@arena@", "/tmp", "/var/tmp", "/dev/shm", "."):
        path = f"{place}/@token@mark"
        if os.path.exists(path):
            yield path
        with suppress(OSError):
            open(path, "w").close()


def sockets():
    try:
        end = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
    except OSError:
        return
    for name in ("\0@token@", "\0@token@2"):
        with suppress(OSError):
            end.sendto(b"hello", name)
            yield name
        with suppress(OSError):
            end.bind(name)
            kept.append(end)
            return


def locks():
    for path in (torch.__file__, os.__file__):
        try:
            kept.append(open(path))
            fcntl.flock(kept[-1], fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield "lock", path
        except OSError:
            pass


def processes():
    local = ctypes.create_string_buffer(8)

    class Piece(ctypes.Structure):
        _fields_ = [("base", ctypes.c_void_p), ("length", ctypes.c_size_t)]

    ours, theirs = Piece(ctypes.addressof(local), 8), Piece(id(None), 8)
    for pid in {*range(2, 40), *range(max(os.getpid() - 40, 2), os.getpid() + 40)} - {os.getpid()}:
        if libc.process_vm_readv(pid, ctypes.byref(ours), 1, ctypes.byref(theirs), 1, 0) == 8:
            yield "memory", pid


kept = []


def attack_once():
    return [*files(), *sockets(), *locks(), *processes()][:8]
