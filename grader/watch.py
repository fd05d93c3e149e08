"""Notice when a file is saved, by polling it.

Polling costs nothing for one file and works on every kind of drive. A file counts as saved once two
polls in a row find it unchanged, since an editor may still be writing the file, may replace it, or
may remove it for a moment.
"""

import stat
import time
from collections.abc import Callable, Iterator
from pathlib import Path

POLL_INTERVAL_S = 0.2
FileStamp = tuple[int, int, int]


def read_stamp(path: Path) -> FileStamp | None:
    """Return the data that change when a file is saved; None unless the path is a regular file."""
    try:
        info = path.stat()
    except OSError:
        return None
    return (info.st_ino, info.st_mtime_ns, info.st_size) if stat.S_ISREG(info.st_mode) else None


def wait_for_saves(path: Path, wait: Callable[[float], None] = time.sleep) -> Iterator[None]:
    """Yield once for the existing file, then once each time it is saved; never end."""
    reported: FileStamp | None = None
    before = read_stamp(path)
    while True:
        now = read_stamp(path)
        if now is not None and now == before and now != reported:
            reported = now
            yield
        else:
            wait(POLL_INTERVAL_S)
        before = now
