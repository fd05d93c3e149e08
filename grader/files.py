"""Files that people keep: written whole or not at all, with a message where that does not work.

A file gets a name of its own while it is written, and the one that was asked for once it is whole:
what was there before stays until then, and nobody ever reads half a report. Imports nothing of
headcheck's.
"""

import errno
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

NO_SPACE_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
ADVICE = {
    errno.ENOSPC: "free some space, or choose another place",
    errno.EDQUOT: "free some space, or choose another place",
    errno.EROFS: "choose another place",
    errno.EACCES: "choose another place, or ask for the right to write there",
    errno.EPERM: "choose another place, or ask for the right to write there",
    errno.EFBIG: "choose another place, or raise the limit on a file's size (ulimit -f)",
    errno.ENOENT: "make that folder first, or choose another place",
    errno.ENOTDIR: "a file is where a folder should be; choose another place",
    errno.EEXIST: "a file is where a folder should be; choose another place",
    errno.EISDIR: "a folder is where a file should be; choose another place",
}
"""what to do about what the system says"""
PROBE_SIZE = 1 << 16
"""so many bytes must fit at least where something is going to be written"""


class WriteError(Exception):
    """Something could not be written; the message says where, why, and what to do."""


def make_write_error(place: Path | str, error: OSError) -> WriteError:
    """The error to raise where the system did not let a place be written."""
    advice = ADVICE.get(error.errno or 0, "choose another place")
    return WriteError(f"{place}: cannot be written: {error.strerror or error}; {advice}")


def describe_os_error(error: OSError) -> str:
    """What the system says about a file, and what to do; its number means nothing to anybody."""
    if error.errno is None or error.strerror is None:
        return str(error)
    if error.errno in NO_SPACE_ERRNOS and error.filename is None:
        folder = tempfile.gettempdir()
        return f"{error.strerror}, likely in {folder}: free some, or set TMPDIR to another folder"
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    advice = f"; {ADVICE[error.errno]}" if error.errno in NO_SPACE_ERRNOS else ""
    return f"{where}{error.strerror}{advice}"


def ensure_writable(folder: Path) -> None:
    """Make a folder, and see that something can be written into it. Raises NotWritten."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            _write_all(probe.fileno(), bytes(PROBE_SIZE))
            os.fsync(probe.fileno())  # some systems find out no earlier that there is no room
    except OSError as error:
        raise make_write_error(folder, error) from None


def write(path: Path, data: bytes) -> None:
    """Put a file there, whole or not at all; what is no file is written to. Raises NotWritten."""
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            with path.open("wb") as device:  # /dev/stdout, say
                device.write(data)
            return
        _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise make_write_error(path, error) from None


def _replace(path: Path, data: bytes) -> None:
    """Raises OSError, and leaves nothing behind then."""
    made = path.with_name(f".headcheck-{secrets.token_hex(6)}")
    descriptor = os.open(made, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)
        if path.exists():
            made.chmod(stat.S_IMODE(path.stat().st_mode))
        made.replace(path)
    except BaseException:
        with suppress(OSError):
            made.unlink()
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
