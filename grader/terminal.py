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
from typing import Any, TextIO

from grader.files import make_write_error


class Stream(io.BufferedWriter):
    """A standard stream that goes on into nothing when its descriptor takes no more."""

    is_reader_gone = False
    """whether whoever read it has gone"""

    def write(self, data: Any) -> int:
        """As of a file; what has to wait is written by the next one."""
        try:
            return super().write(data)
        except OSError as error:
            self._give_up(error)
            return memoryview(data).nbytes

    def flush(self) -> None:
        """As of a file."""
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if isinstance(error, BlockingIOError):
            raise error
        self.is_reader_gone = isinstance(error, BrokenPipeError)
        with open(os.devnull, "wb") as nothing:  # noqa: PTH123 - no path, but a device
            os.dup2(nothing.fileno(), self.fileno())
        super().flush()  # what waits must not be tried again at the end
        self.report_error(error)

    def report_error(self, error: OSError) -> None:
        """Nothing to be told, and nobody who could be."""


class Stdout(Stream):
    """Standard output. Raises NotWritten once where it takes nothing, unless nobody reads it."""

    def report_error(self, error: OSError) -> None:
        """Raises NotWritten."""
        if not self.is_reader_gone:
            raise make_write_error("standard output", error) from None


@contextmanager
def guard_streams() -> Iterator[None]:
    """Let this process write to its standard streams, whatever they are, within the context."""
    open_closed_streams()
    before = sys.stdout, sys.stderr
    sys.stdout = _wrap_stream(before[0], 1, Stdout)
    sys.stderr = _wrap_stream(before[1], 2, Stream)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # it was said when it was written
                stream.flush()
        sys.stdout, sys.stderr = before


def is_reader_gone() -> bool:
    """Whether whoever read standard output has gone."""
    buffer = getattr(sys.stdout, "buffer", None)
    return isinstance(buffer, Stdout) and buffer.is_reader_gone


def open_closed_streams() -> None:
    """Open on nothing whichever of the standard streams is closed, here and in what is started."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # gets the lowest number that is free: this one
            os.set_inheritable(opened, True)


def _wrap_stream(stream: TextIO | None, fd: int, kind: type[Stream]) -> TextIO:
    """The same stream, of this kind; what has no descriptor of its own as it is."""
    if stream is not None:
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")  # a terminal may not know every character
        try:
            fd = stream.fileno()
        except (OSError, ValueError):
            return stream
    if sys.platform == "win32" and stream is not None:  # its consoles are no files
        return stream
    buffer = kind(io.FileIO(fd, "wb", closefd=False))
    encoding = "utf-8" if stream is None else stream.encoding
    line_buffering = getattr(stream, "line_buffering", False)
    return io.TextIOWrapper(buffer, encoding, errors="replace", line_buffering=line_buffering)
