"""The program `headcheck`: runs the command in a process that imports torch before reading it.

Theory of operation
    The grader process and the zygote both need torch. To import it only once, one of them must be
    forked from the other. But every submission can read all that was in the zygote's memory at the
    fork, so that memory must not hold the environment, the arguments (`--seed`) or the files of a
    command.

    So a command that needs a zygote keeps its arguments and its environment in a file in memory,
    and replaces its process by this program, in an environment that contains nothing from the
    caller's. The program imports torch and forks the zygote, which closes that file
    unread. Only then does the program read the file and continue as the given command. It is the
    same process all along, so the command keeps its process number, its terminal, its signals and
    its exit code.

    The program is started as: python -m headcheck.grader.ui.program FD
"""

import atexit
import contextlib
import gc
import os
import signal
import sys
import tempfile
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, NoReturn

if TYPE_CHECKING:
    from headcheck.grader.sandbox.grader_side.launch import Zygote


def main() -> None:
    """Run the command."""
    from headcheck.grader.ui import cli

    cli.main(start_over)


COLLECT_AFTER = 50_000
"""how many new objects there are before garbage is looked for; usually 700, which a command pays
for a hundred times while it imports and asks, and finds hardly any"""


@dataclass(frozen=True)
class GivenCommand:
    """Arguments and environment of a command. File names are bytes because encodings may differ."""

    name: str
    """the name by which messages call the program"""
    arguments: tuple[bytes, ...]
    environment: Mapping[bytes, bytes]
    encodings: tuple[str, str]
    """the encodings of standard output and standard error"""

    def take_on(self) -> None:
        """Make this process use these arguments and this environment."""
        sys.argv = [os.fsdecode(argument) for argument in self.arguments]
        os.environb.clear()
        os.environb.update(self.environment)
        tempfile.tempdir = None  # to be found in this environment
        for stream, encoding in zip((sys.stdout, sys.stderr), self.encodings, strict=True):
            stream.reconfigure(encoding=encoding)  # type: ignore[union-attr]  # they are files


def start_over(device: str) -> None:
    """Replace this process by one that has a zygote, if this device allows a zygote."""
    import pickle

    import click

    from headcheck.grader.sandbox.grader_side import launch

    if not launch.can_have_zygote(device):
        return
    given = GivenCommand(
        click.get_current_context().find_root().info_name or "headcheck",
        tuple(os.fsencode(argument) for argument in sys.argv),
        dict(os.environb),
        (sys.stdout.encoding, sys.stderr.encoding),
    )
    kept = os.memfd_create("command", flags=0)  # no MFD_CLOEXEC: the program inherits it
    with open(kept, "wb", closefd=False) as file:
        pickle.dump(given, file)
    command = [sys.executable, "-m", "headcheck.grader.ui.program", str(kept)]
    os.execve(sys.executable, command, launch.make_environment())


def go_on(kept: int) -> None:
    """Import torch, fork a zygote, then run the command that was kept in this file."""
    zygote = fork_zygote()
    import pickle

    from headcheck.grader.ui import (
        cli,  # not before: what the zygote needs not know, it has not loaded
    )

    with open(kept, "rb") as file:
        file.seek(0)
        given: GivenCommand = pickle.load(file)
    given.take_on()
    with zygote:
        try:
            cli.main(lambda device: zygote, given.name)
            status = 0
        except SystemExit as end:
            status = int(end.code or 0)
    # Freeing all objects, as at a usual end, takes a tenth of a second with torch in memory.
    atexit._run_exitfuncs()
    os._exit(status)


def fork_zygote() -> "Zygote":
    """Import torch and fork a zygote. If that fails, print why and exit."""
    from headcheck.grader.sandbox.grader_side import launch
    from headcheck.grader.sandbox.server_side import zygote

    gc.disable()  # there is little garbage, and much to look through
    try:
        with raise_interrupts():
            forked = zygote.fork_zygote()
        return launch.adopt_zygote(*forked)
    except BaseException as error:
        fail(error)
    finally:
        gc.freeze()  # garbage is looked for before each file, and not in torch
        gc.set_threshold(COLLECT_AFTER)
        gc.enable()


@contextlib.contextmanager
def raise_interrupts() -> Iterator[None]:
    """Raise a pending KeyboardInterrupt at the end, in case torch's imports caught it."""
    interrupts: list[int] = []

    def interrupt(number: int, _: FrameType | None) -> None:
        interrupts.append(number)
        raise KeyboardInterrupt

    before = signal.getsignal(signal.SIGINT)
    if before is signal.default_int_handler:
        signal.signal(signal.SIGINT, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
    if interrupts:
        raise KeyboardInterrupt


def fail(error: BaseException) -> NoReturn:
    """Print one line on why there is no zygote, and exit."""
    from headcheck.grader import fault
    from headcheck.grader.ui import cli

    match error:
        case KeyboardInterrupt():
            cli.fail("interrupted")
        case SystemExit():
            cli.fail(str(error))
        case _:
            cli.fail(fault.describe(error))


if __name__ == "__main__":
    go_on(int(sys.argv[1]))
