"""When a file was saved, found out by looking at it now and then.

Looking costs nothing for one file and works on every kind of drive. A file is taken up when two
looks in a row find it the same: an editor may be in the middle of writing it, may put another file
in its place, or take it away for a moment.
"""

import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_INTERVAL_S = 0.2
FileStamp = tuple[int, int, int]


def read_stamp(path: Path) -> FileStamp | None:
    """What changes when a file is saved; None where there is no file."""
    try:
        found = path.stat()
    except OSError:
        return None
    return (found.st_ino, found.st_mtime_ns, found.st_size) if stat.S_ISREG(found.st_mode) else None


def wait_for_saves(path: Path, wait: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Once for the file as it is, then once whenever it has been saved; never ends."""
    taken: FileStamp | None = None
    before = read_stamp(path)
    while True:
        now = read_stamp(path)
        if now is not None and now == before and now != taken:
            taken = now
            yield
        else:
            wait(POLL_INTERVAL_S)
        before = now
