"""Standard input, output and error, when they are closed, full, or no longer read.

Theory of operation
    The next file that a process opens gets the lowest closed descriptor: a socket to the sandbox
    could become standard output, and printed text would go there. So closed standard streams are
    opened on the null device before anything else is opened. Output to a reader that has exited (`…
    | head`) is discarded, and the command ends as usual. If standard output fails for another
    reason, such as a full disk, that is reported once, on standard error. Output that standard
    error does not accept is lost.

Imports nothing heavy.
"""

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, TextIO

from headcheck.grader.files import make_write_error


class Stream(io.BufferedWriter):
    """A standard stream that continues on the null device once its descriptor fails."""

    is_reader_gone = False
    """whether the reader of standard output has closed it"""

    def write(self, data: Any) -> int:
        """Write as to a file; discard the data if that fails."""
        try:
            return super().write(data)
        except OSError as error:
            self._give_up(error)
            return memoryview(data).nbytes

    def flush(self) -> None:
        """Flush as a file; discard the data if that fails."""
        try:
            super().flush()
        except OSError as error:
            self._give_up(error)

    def _give_up(self, error: OSError) -> None:
        if isinstance(error, BlockingIOError):
            raise error
        self.is_reader_gone = isinstance(error, BrokenPipeError)
        with open(os.devnull, "wb") as null:  # noqa: PTH123 - no path, but a device
            os.dup2(null.fileno(), self.fileno())
        super().flush()  # discards the buffer, which must not be written again at exit
        self.report_error(error)

    def report_error(self, error: OSError) -> None:
        """Do nothing: standard error is where an error would be reported."""


class Stdout(Stream):
    """Standard output. Raises WriteError once if it fails, unless its reader has exited."""

    def report_error(self, error: OSError) -> None:
        """Raise WriteError unless the reader has exited."""
        if not self.is_reader_gone:
            raise make_write_error("standard output", error) from None


@contextmanager
def guard_streams() -> Iterator[None]:
    """Let this process write to its standard streams, in whatever state, within the context."""
    open_closed_streams()
    before = sys.stdout, sys.stderr
    sys.stdout = _wrap_stream(before[0], 1, Stdout)
    sys.stderr = _wrap_stream(before[1], 2, Stream)
    try:
        yield
    finally:
        for stream in (sys.stdout, sys.stderr):
            with suppress(Exception):  # reported when it was written
                stream.flush()
        sys.stdout, sys.stderr = before


def is_reader_gone() -> bool:
    """Whether the reader of standard output has exited."""
    buffer = getattr(sys.stdout, "buffer", None)
    return isinstance(buffer, Stdout) and buffer.is_reader_gone


def open_closed_streams() -> None:
    """Open closed standard streams on the null device, for this process and its children."""
    for fd in range(3):
        try:
            os.fstat(fd)
        except OSError:
            opened = os.open(os.devnull, os.O_RDWR)  # gets the lowest free descriptor, which is fd
            os.set_inheritable(opened, True)


def _wrap_stream(stream: TextIO | None, fd: int, kind: type[Stream]) -> TextIO:
    """Wrap a stream in a stream of this kind; return it unchanged if it has no descriptor."""
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
