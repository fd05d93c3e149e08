"""Wrappers for system calls that Python does not offer; they contain no policy.

This module can be imported on every platform; calling its functions needs Linux.
"""

import ctypes
import os
import platform
import signal
import struct
from functools import cache
from pathlib import Path

NEWNS, NEWUTS, NEWIPC = 0x20000, 0x4000000, 0x8000000
NEWUSER, NEWPID, NEWNET = 0x10000000, 0x20000000, 0x40000000
MS_RDONLY, MS_NOSUID, MS_NODEV, MS_NOEXEC, MS_REMOUNT = 1, 2, 4, 8, 32
MS_REC, MS_PRIVATE = 0x4000, 0x40000
PR_SET_PDEATHSIG, PR_SET_DUMPABLE, PR_SET_SECCOMP, PR_SET_NO_NEW_PRIVS = 1, 4, 22, 38
_CLONE = {"x86_64": 56, "aarch64": 220}
# Newer calls have the same number on every machine.
_OPEN_TREE, _MOVE_MOUNT, _CLOSE_RANGE = 428, 429, 436
_CAPABILITY_VERSION_3 = 0x20080522
_AT_FDCWD, _AT_RECURSIVE, _EMPTY_PATH = -100, 0x8000, 0x4
_OPEN_TREE_CLONE = 1


@cache
def _load_libc() -> ctypes.PyDLL:
    # PyDLL keeps the GIL, so that the child of `fork_into` has it in its own thread.
    library = ctypes.PyDLL(None, use_errno=True)
    library.syscall.restype = ctypes.c_long
    return library


def _check_result(name: str, result: int) -> int:
    if result < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"{name}: {os.strerror(number)}")
    return result


def syscall(name: str, number: int, *arguments: int | bytes | None) -> int:
    """Make a system call by its number; `name` is used in errors. Raises OSError."""
    wide = [ctypes.c_long(a) if isinstance(a, int) else ctypes.c_char_p(a) for a in arguments]
    return _check_result(name, int(_load_libc().syscall(ctypes.c_long(number), *wide)))


def prctl(option: int, *values: int) -> None:
    """Change an attribute of this process. Raises OSError."""
    wide = [ctypes.c_ulong(value) for value in (*values, 0, 0, 0, 0)[:4]]
    _check_result(f"prctl({option})", _load_libc().prctl(ctypes.c_int(option), *wide))


def die_with(parent: int) -> None:
    """Have the kernel kill this process when the thread of the parent that started it ends.

    A change of user, group or capabilities cancels this. Raises SystemExit if the parent has ended.
    """
    prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        raise SystemExit(1)


def unshare(namespaces: int) -> None:
    """Move this process into new namespaces. Raises OSError."""
    _check_result("unshare", _load_libc().unshare(namespaces))


def mount(source: str | None, target: Path, kind: str | None, flags: int, data: str = "") -> None:
    """Mount a file system, or change a mount. Raises OSError."""
    texts = [None if t is None else os.fsencode(t) for t in (source, str(target), kind)]
    result = _load_libc().mount(*texts, ctypes.c_ulong(flags), data.encode())
    _check_result(f"mount on {target}", result)


def copy_mount(path: Path) -> int:
    """Copy the mounts at and below a path, to place them elsewhere; return a file descriptor."""
    flags = _OPEN_TREE_CLONE | _AT_RECURSIVE | os.O_CLOEXEC
    return syscall(f"open_tree {path}", _OPEN_TREE, _AT_FDCWD, os.fsencode(path), flags)


def place_mount(tree: int, target: Path) -> None:
    """Put a copied mount at a path. Raises OSError."""
    path = os.fsencode(target)
    syscall(f"move_mount {target}", _MOVE_MOUNT, tree, b"", _AT_FDCWD, path, _EMPTY_PATH)


def fork_into(namespaces: int) -> int:
    """Like `os.fork`, but the child is the first process of new namespaces. Raises OSError.

    This takes one process less than `unshare` and `fork`, since a process that unshares the PID
    namespace does not enter the new namespace itself.
    """
    python = ctypes.pythonapi
    python.PyOS_BeforeFork()
    flags = ctypes.c_long(namespaces | signal.SIGCHLD)
    number = ctypes.c_long(_CLONE[platform.machine()])
    pid = int(_load_libc().syscall(number, flags, *[ctypes.c_long(0)] * 4))
    if pid == 0:
        python.PyOS_AfterFork_Child()
        return 0
    error = ctypes.get_errno()
    python.PyOS_AfterFork_Parent()
    if pid < 0:
        raise OSError(error, f"clone: {os.strerror(error)}")
    return pid


def close_from(first: int) -> None:
    """Close every file descriptor from this one on."""
    try:
        syscall("close_range", _CLOSE_RANGE, first, 0xFFFFFFFF, 0)
    except OSError:  # before Linux 5.9
        os.closerange(first, min(os.sysconf("SC_OPEN_MAX"), 1 << 16))


def drop_capabilities() -> None:
    """Give up every capability for good. Raises OSError."""
    header = struct.pack("Ii", _CAPABILITY_VERSION_3, 0)
    _check_result("capset", _load_libc().capset(header, bytes(24)))


def map_ids(number: int, uid: int, gid: int) -> None:
    """In a new user namespace, give its only user and group this number. Raises OSError.

    `uid` and `gid` are their numbers outside the namespace.
    """
    maps = {"setgroups": "deny", "uid_map": f"{number} {uid} 1", "gid_map": f"{number} {gid} 1"}
    for name, text in maps.items():
        fd = os.open(f"/proc/self/{name}", os.O_WRONLY | os.O_CLOEXEC)
        try:
            os.write(fd, text.encode())
        finally:
            os.close(fd)
