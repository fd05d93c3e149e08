"""Namespaces: a submission's own view of processes, mounts, network, host name and users.

Theory of operation
    Before it imports anything large, the server enters a user and a mount namespace of its own,
    covers all folders but for what is needed, and in these what is hidden, and mounts a *stage*: a
    tiny read-only file system with one empty folder, `own`. Every child is the first process of
    further namespaces, in which a fresh tmpfs with a quota covers `own`, and an empty one `/proc`.
    The stage is there for Landlock, whose rules belong to folders: a rule on the stage, made once,
    holds for whatever is mounted on `own` in any child.

    Landlock by itself forbids to open files, and not to ask whether they exist, how large they are
    and where links lead. Behind covers there is nothing to ask about.

    The submission is the first process of its PID namespace. Signals by which others would end,
    and that it does not handle, pass such a process by when it raises them itself; so `abort()`
    ends in a segmentation fault, and a limit on processor time must be a hard one. A signal from
    outside, or from the processor, ends it as any other process, and all of its namespace with it.
"""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from grader.sandbox.server_side.jail import kernel, mounts
from grader.sandbox.server_side.jail.privileges import NOBODY

STAGE_FOLDERS = ("/dev/shm", "/tmp", "/var/tmp", "/mnt")
CHILD_NAMESPACES = (
    kernel.NEWUSER | kernel.NEWNS | kernel.NEWPID | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS
)
_MOUNT_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC


class NoStage(Exception):
    """There is no folder that could be covered without hiding what is needed."""


def set_up_stage(needed: Sequence[Path], hidden: Sequence[Path] = ()) -> Path:
    """In namespaces of this process's own, mount the stage; where it is.

    Raises OSError where namespaces are not to be had, NoStage.
    """
    uid, gid = os.geteuid(), os.getegid()
    kernel.unshare(kernel.NEWUSER | kernel.NEWNS)
    _map_to_nobody(uid, gid)
    kernel.mount(None, Path("/"), None, kernel.MS_REC | kernel.MS_PRIVATE)
    mounts.cover_all(needed, hidden)
    stage = _choose_stage_folder(needed)
    kernel.mount("tmpfs", stage, "tmpfs", _MOUNT_FLAGS, "size=4k,nr_inodes=4,mode=755")
    get_scratch_folder(stage).mkdir(0o700)
    kernel.mount(None, stage, None, kernel.MS_REMOUNT | kernel.MS_RDONLY | _MOUNT_FLAGS)
    return stage


def _map_to_nobody(uid: int, gid: int) -> None:
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # else what is in /proc/self belongs to root
    kernel.map_ids(NOBODY, uid, gid)  # not root, even where it is so by name


def _choose_stage_folder(needed: Sequence[Path]) -> Path:
    for name in STAGE_FOLDERS:
        place = Path(name).resolve()
        if place.is_dir() and not any(place in (path, *path.parents) for path in needed):
            return place
    raise NoStage(
        f"none of {', '.join(STAGE_FOLDERS)} can be covered: Python or headcheck lies there"
    )


def get_scratch_folder(stage: Path) -> Path:
    """The folder that a child may write into."""
    return stage / "own"


def set_up_namespaces(stage: Path, ids: tuple[int, int], size: int, entries: int) -> None:
    """As the first process of new namespaces, make them this submission's own.

    `ids` are user and group before the namespaces were entered. Raises OSError.
    """
    _map_to_nobody(*ids)
    quota = f"size={size},nr_inodes={entries},mode=700"
    kernel.mount("tmpfs", get_scratch_folder(stage), "tmpfs", _MOUNT_FLAGS, quota)
    kernel.mount(
        "tmpfs", Path("/proc"), "tmpfs", _MOUNT_FLAGS | kernel.MS_RDONLY, "size=4k,nr_inodes=1"
    )
    socket.sethostname("sandbox")
