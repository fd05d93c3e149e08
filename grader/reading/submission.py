"""From paths on the command line to files that can be read: finding, opening, naming.

Opening is careful: a submission may be a link, a pipe or a device, and none of these is followed
or waited for.
"""

import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

# Not every system has each of these; all but the first are there on Linux.
_FLAGS = os.O_RDONLY | sum(
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC", "O_BINARY")
)
KINDS = {".ipynb": "ipynb", ".py": "py"}
SKIPPED = {"__pycache__", ".ipynb_checkpoints", ".git", ".venv", "node_modules"}


class NotFound(Exception):
    """A path that leads to no submission; the message says what and what to do."""


class Unopened(Exception):
    """A file that cannot be taken as a submission; the message says why."""


@dataclass(frozen=True, slots=True)
class Submission:
    """One file handed in, and the definition in it that is meant, if the caller said so."""

    path: Path
    shown: str
    name: str | None = None
    by: str | None = None
    """who handed it in, where that is known otherwise than from the file name"""

    @property
    def student(self) -> str:
        """Whose it is: as a course says, else as far as the file name tells."""
        return Path(self.shown).stem if self.by is None else self.by

    @property
    def kind(self) -> str:
        """`ipynb` or `py`."""
        return KINDS[self.path.suffix.lower()]


def find(arguments: Sequence[str]) -> list[Submission]:
    """The submissions that paths stand for: files, folders of files, and FILE:NAME.

    Raises NotFound for a path that does not exist, is of another kind, or holds no submission.
    """
    return [submission for argument in arguments for submission in _find(argument)]


def _find(argument: str) -> Iterator[Submission]:
    path, name = Path(argument), None
    if not path.exists() and ":" in argument:
        before, _, after = argument.rpartition(":")
        if after.isidentifier():
            path, name = Path(before), after
    if path.is_dir():
        found = list(_in_folder(path))
        if not found:
            raise NotFound(f"{path}: no submissions in this folder; they are .ipynb and .py files")
        yield from found
    elif not path.exists() and not path.is_symlink():
        raise NotFound(f"{path}: no such file or folder")
    elif path.suffix.lower() not in KINDS:
        raise NotFound(f"{path}: a submission is a .ipynb or a .py file")
    else:
        yield Submission(path, shown(path), name)


def _in_folder(folder: Path) -> Iterator[Submission]:
    for entry in sorted(folder.iterdir(), key=lambda p: p.name):
        if entry.is_dir() and not entry.is_symlink():
            if entry.name not in SKIPPED:
                yield from _in_folder(entry)
        elif entry.suffix.lower() in KINDS:
            yield Submission(entry, shown(entry))


def shown(path: Path) -> str:
    """A path as text that can be written anywhere: bytes that are no UTF-8 are escaped."""
    return str(path).encode("utf-8", "backslashreplace").decode("utf-8")


def read(submission: Submission, limit: int) -> bytes:
    """The bytes of a submission, never more than `limit`.

    Raises Unopened for anything but a readable regular file of that size.
    """
    try:
        fd = os.open(submission.path, _FLAGS)
    except OSError as error:
        if submission.path.is_symlink():
            raise Unopened("is a symbolic link; hand in the file itself") from None
        raise Unopened(f"cannot be opened: {error.strerror}") from None
    with os.fdopen(fd, "rb") as file:
        status = os.fstat(fd)
        if not stat.S_ISREG(status.st_mode):
            raise Unopened("is no regular file")
        if status.st_size > limit:
            size = f"{status.st_size / (1 << 20):.0f} MiB"
            raise Unopened(
                f"is {size} large, over the limit of {limit >> 20} MiB; clear its outputs"
            )
        return file.read(limit + 1)[:limit]
