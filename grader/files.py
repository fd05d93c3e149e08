"""Write files atomically: whole or not at all, with a useful message on failure.

A file is written under a temporary name and renamed once it is complete, so an existing file stays
until the new one is complete, and nobody ever reads half a report. Imports no other module of
headcheck.
"""

import errno
import os
import secrets
import stat
import tempfile
from contextlib import suppress
from pathlib import Path

from headcheck.grader import UserError

NO_SPACE_ERRNOS = (errno.ENOSPC, errno.EDQUOT)
ADVICE = {
    errno.ENOSPC: "free some space, or choose another place",
    errno.EDQUOT: "free some space, or choose another place",
    errno.EROFS: "choose another place",
    errno.EACCES: "choose another place, or ask for permission to write there",
    errno.EPERM: "choose another place, or ask for permission to write there",
    errno.EFBIG: "choose another place, or raise the limit on a file's size (ulimit -f)",
    errno.ENOENT: "make that folder first, or choose another place",
    errno.ENOTDIR: "a file is where a folder should be; choose another place",
    errno.EEXIST: "a file is where a folder should be; choose another place",
    errno.EISDIR: "a folder is where a file should be; choose another place",
}
"""advice on errors of the operating system, by error number"""
PROBE_SIZE = 1 << 16
"""how many bytes must fit into a folder for it to count as writable"""


class WriteError(UserError):
    """A file could not be written; the message says where, why, and what to do."""


def make_write_error(target: Path | str, error: OSError) -> WriteError:
    """Return the error to raise if the system could not write to a target."""
    advice = ADVICE.get(error.errno or 0, "choose another place")
    return WriteError(f"{target}: cannot be written: {error.strerror or error}; {advice}")


def describe_os_error(error: OSError) -> str:
    """Describe an error of the operating system and its remedy, without the error number."""
    if error.errno is None or error.strerror is None:
        return str(error)
    if error.errno in NO_SPACE_ERRNOS and error.filename is None:
        folder = tempfile.gettempdir()
        return f"{error.strerror}, likely in {folder}: free some, or set TMPDIR to another folder"
    where = "" if error.filename is None else f"{os.fsdecode(error.filename)}: "
    advice = f"; {ADVICE[error.errno]}" if error.errno in NO_SPACE_ERRNOS else ""
    return f"{where}{error.strerror}{advice}"


def ensure_writable(folder: Path) -> None:
    """Create a folder and check that files can be written into it. Raises WriteError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder, buffering=0) as probe:
            _write_all(probe.fileno(), bytes(PROBE_SIZE))
            os.fsync(probe.fileno())  # some file systems report a full disk only here
    except OSError as error:
        raise make_write_error(folder, error) from None


def write(path: Path, data: bytes) -> None:
    """Write a file, whole or not at all; write to a device directly. Raises WriteError."""
    try:
        if path.exists() and not stat.S_ISREG(path.stat().st_mode):
            with path.open("wb") as device:  # /dev/stdout, say
                device.write(data)
            return
        _replace(Path(os.path.realpath(path)), data)
    except OSError as error:
        raise make_write_error(path, error) from None


def _replace(path: Path, data: bytes) -> None:
    """Replace a file atomically. Raises OSError, and leaves no temporary file behind."""
    temporary = path.with_name(f".headcheck-{secrets.token_hex(6)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
    try:
        try:
            _write_all(descriptor, data)
        finally:
            os.close(descriptor)
        if path.exists():
            temporary.chmod(stat.S_IMODE(path.stat().st_mode))
        temporary.replace(path)
    except BaseException:
        with suppress(OSError):
            temporary.unlink()
        raise


def _write_all(descriptor: int, data: bytes) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest) :]
