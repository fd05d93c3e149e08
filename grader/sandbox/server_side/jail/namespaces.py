"""Namespaces: a submission's own view of processes, mounts, network, host name and users.

Theory of operation
    Before it imports anything large, the server enters its own user and mount namespaces. There it
    covers everything but the needed paths, and within these the hidden packages. It then mounts a
    *stage*: a tiny read-only file system with one empty folder, `own`. Every child is the first
    process of further namespaces, in which a fresh tmpfs with a quota covers `own`, and an empty
    tmpfs covers `/proc`. The stage exists for Landlock, whose rules belong to folders: a rule on
    the stage, made once, holds for whatever is mounted on `own` in any child.

    Landlock by itself prevents a process from opening files, but not from finding out whether they
    exist, how large they are, and where links lead. Covered folders hide this, too.

    The submission is the first process of its PID namespace. If such a process sends itself a fatal
    signal for which it has no handler, the kernel ignores the signal. So `abort()` ends in a
    segmentation fault, and the limit on processor time must be a hard one. A signal from outside or
    a hardware exception ends the process like any other, and every other process in its namespace
    ends with it.
"""

import os
import socket
from collections.abc import Sequence
from pathlib import Path

from headcheck.grader.sandbox.server_side.jail import kernel, mounts
from headcheck.grader.sandbox.server_side.jail.privileges import NOBODY

STAGE_FOLDERS = ("/dev/shm", "/tmp", "/var/tmp", "/mnt")
CHILD_NAMESPACES = (
    kernel.NEWUSER | kernel.NEWNS | kernel.NEWPID | kernel.NEWNET | kernel.NEWIPC | kernel.NEWUTS
)
_MOUNT_FLAGS = kernel.MS_NOSUID | kernel.MS_NODEV | kernel.MS_NOEXEC


class NoStage(Exception):
    """There is no folder that the stage could cover without hiding a needed path."""


def set_up_stage(needed: Sequence[Path], hidden: Sequence[Path] = ()) -> Path:
    """Move this process into its own namespaces, mount the stage, and return the stage's path.

    Raises NoStage, and OSError if namespaces are not available.
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
    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)  # otherwise /proc/self belongs to root
    kernel.map_ids(NOBODY, uid, gid)  # never root, not even by name


def _choose_stage_folder(needed: Sequence[Path]) -> Path:
    for name in STAGE_FOLDERS:
        folder = Path(name).resolve()
        if folder.is_dir() and not any(folder in (path, *path.parents) for path in needed):
            return folder
    raise NoStage(f"none of {', '.join(STAGE_FOLDERS)} can be hidden: Python or headcheck is there")


def get_scratch_folder(stage: Path) -> Path:
    """Return the folder in which a child may write."""
    return stage / "own"


def set_up_namespaces(stage: Path, ids: tuple[int, int], size: int, entries: int) -> None:
    """As the first process of new namespaces, set them up for a submission. Raises OSError.

    `ids` are the user and group outside the namespaces; `size` (bytes) and `entries` (inodes) limit
    the scratch folder.
    """
    _map_to_nobody(*ids)
    quota = f"size={size},nr_inodes={entries},mode=700"
    kernel.mount("tmpfs", get_scratch_folder(stage), "tmpfs", _MOUNT_FLAGS, quota)
    kernel.mount(
        "tmpfs", Path("/proc"), "tmpfs", _MOUNT_FLAGS | kernel.MS_RDONLY, "size=4k,nr_inodes=1"
    )
    socket.sethostname("sandbox")
