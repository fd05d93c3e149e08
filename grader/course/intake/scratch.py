"""Make a private folder for unpacked files; the next run removes it if this one is killed.

A folder is in use while a process holds its lock, which the system releases when the process ends.
So the students' files that a killed run leaves behind do not remain until the machine restarts.
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
"""a folder younger than this may not have been locked yet by its process"""


@contextmanager
def make_folder() -> Iterator[Path]:
    """Make a folder that only this user can enter; it is removed at the end of the context."""
    _sweep(Path(tempfile.gettempdir()))
    with tempfile.TemporaryDirectory(prefix=PREFIX) as name:
        opened = _try_lock(Path(name))
        try:
            yield Path(name)
        finally:
            if opened is not None:
                os.close(opened)


def _sweep(temporary: Path) -> None:
    """Remove this user's folders whose processes have ended."""
    for left in temporary.glob(f"{PREFIX}*"):
        with suppress(OSError):
            status = left.lstat()
            own = hasattr(os, "getuid") and status.st_uid == os.getuid()
            if not own or left.is_symlink() or time.time() - status.st_mtime < YOUNG_S:
                continue
            if (opened := _try_lock(left)) is not None:
                shutil.rmtree(left, ignore_errors=True)
                os.close(opened)


def _try_lock(path: Path) -> int | None:
    """Open and lock a folder; None if another process holds it or the system has no locks."""
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
