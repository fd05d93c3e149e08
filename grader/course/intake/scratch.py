"""A private folder for what is unpacked, removed at the end, or by the next run after a `kill -9`.

A folder is in use as long as somebody holds its lock, which ends with its process, however that
ends. So what a killed run left, students' files, does not stay until the machine starts anew.
"""

import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "headcheck-unpacked-"
YOUNG_S = 60
"""a folder this young may be about to be locked by whoever made it"""


@contextmanager
def make_folder() -> Iterator[Path]:
    """A folder that nobody else may enter, for as long as the context lasts."""
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        opened = _try_lock(Path(name))
        try:
            yield Path(name)
        finally:
            if opened is not None:
                os.close(opened)


def _sweep(temporary: Path) -> None:
    """Remove the folders of this user whose processes are gone."""
    for left in temporary.glob(f"{PREFIX}*"):
        with suppress(OSError):
            status = left.lstat()
            ours = hasattr(os, "getuid") and status.st_uid == os.getuid()
            if not ours or left.is_symlink() or time.time() - status.st_mtime < YOUNG_S:
                continue
            opened = _try_lock(left)
            if opened is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(opened)


def _try_lock(path: Path) -> int | None:
    """The folder, open and locked; None if another process holds it, or nobody can here."""
    if sys.platform == "win32":
        return None
    import fcntl

    opened = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(opened, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(opened)
        return None
    return opened
