"""Standard input, output and error, where they are closed, full, or read by nobody any more.

Theory of operation
    A closed descriptor is the next one that is opened: a socket to the sandbox would become
    standard output, and what is printed would go there. So before anything else is opened, what is
    closed is opened on nothing. What is written to a reader who has gone (`… | head`) is dropped,
    and the command ends as it would have; nobody has asked for more. Where standard output takes
    nothing for another reason, such as a full disk, that is said once. Standard error is where it
    would be said: what it does not take is lost.

Imports nothing heavy.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import IO, Any, TextIO

from grader.files import not_written


class Stdout(io.FileIO):
    """A descriptor that drops what nobody reads. Raises NotWritten where it takes nothing."""

    unread = False

    def write(self, data: Any) -> int:
        """As of a file; all of it, once the reader is gone or the place was full."""
        if self.unread:
            return memoryview(data).nbytes
        try:
            return super().write(data)
        except BrokenPipeError:
            self.unread = True
            return memoryview(data).nbytes
        except OSError as error:
            self.unread = True  # what waits in buffers is not tried again
            raise not_written("standard output", error) from None


class Stderr(io.FileIO):
    """A descriptor that drops what it cannot take."""

    def write(self, data: Any) -> int:
        """As of a file."""
        try:
            return super().write(data)
        except OSError:
            return memoryview(data).nbytes


@contextmanager
def guarded() -> Iterator[None]:
    """Let this process write to its standard streams, whatever they are, within the context."""
    open_closed()
    before = sys.stdout, sys.stderr
    sys.stdout = _wrapped(before[0], 1, Stdout)
    sys.stderr = _wrapped(before[1], 2, Stderr)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # it was said when it was written
                stream.flush()
        sys.stdout, sys.stderr = before


def unread() -> bool:
    """Whether whoever read standard output has gone."""
    raw = getattr(getattr(sys.stdout, "buffer", None), "raw", None)
    return isinstance(raw, Stdout) and raw.unread


def open_closed() -> None:
    """Open on nothing whichever of the standard streams is closed, here and in what is started."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
            os.set_inheritable(opened, True)


def _wrapped(stream: TextIO | None, fd: int, kind: type[io.FileIO]) -> TextIO:
    """The same stream with a descriptor of this kind; what has none of its own as it is."""
    if stream is not None:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every character
        try:
            fd = stream.fileno()
        except (OSError, ValueError):
            return stream
    if sys.platform == "win32" and stream is not None:  # its consoles are no files
        return stream
    raw: IO[bytes] = kind(fd, "wb", closefd=False)
    encoding = "utf-8" if stream is None else stream.encoding
    line_buffering = getattr(stream, "line_buffering", False)
    return io.TextIOWrapper(
        io.BufferedWriter(raw), encoding, errors="replace", line_buffering=line_buffering
    )
