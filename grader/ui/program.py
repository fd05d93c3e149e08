"""The program `headcheck`: the command, in a process that imports torch before it knows what to grade.

Theory of operation
    The grader process and the zygote both need torch, and the one must be forked from the other for
    it to be imported once. But every submission can read what was in a zygote's memory when it was
    forked: it must not know the environment, the arguments (`--seed`) or the files of the command.

    So a command that needs a zygote starts over. It keeps its arguments and its environment in a file
    in memory, and replaces itself by this program, with an environment that has nothing of the
    caller's. The program imports torch, forks the zygote, which closes that file unread, and only
    then reads it and goes on as the command that was given. It is the same process all the time, so
    its number, its terminal, its signals and its exit code stay those of the command.

    Started over as: python -m grader.ui.program FD
"""

import gc
import os
import pickle
import sys
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from typing import NoReturn

from grader.sandbox.grader_side import launch
from grader.sandbox.grader_side.launch import Zygote
from grader.sandbox.server_side import zygote


def main() -> None:
    """Run the command."""
    from grader.ui import cli

    cli.main(start_over)


@dataclass(frozen=True)
class GivenCommand:
    """What the caller gave to a command. Names of files are bytes: encodings may differ."""

    name: str
    """what messages call the program"""
    arguments: list[bytes]
    environment: Mapping[bytes, bytes]
    encodings: tuple[str, str]
    """of standard output and standard error"""

    def take_on(self) -> None:
        """Make them those of this process."""
        sys.argv = [os.fsdecode(argument) for argument in self.arguments]
        os.environb.clear()
        os.environb.update(self.environment)
        tempfile.tempdir = None  # to be found in this environment
        for stream, encoding in zip((sys.stdout, sys.stderr), self.encodings, strict=True):
            stream.reconfigure(encoding=encoding)  # type: ignore[union-attr]  # they are files


def start_over(device: str) -> None:
    """Replace this process by one that has a zygote, if there can be one for this device."""
    if not launch.can_have_zygote(device):
        return
    import click

    given = GivenCommand(
        click.get_current_context().find_root().info_name or "headcheck",
        [os.fsencode(argument) for argument in sys.argv],
        dict(os.environb),
        (sys.stdout.encoding, sys.stderr.encoding),
    )
    kept = os.memfd_create("command", flags=0)  # no MFD_CLOEXEC: the program inherits it
    with open(kept, "wb", closefd=False) as file:  # noqa: PTH123 - no path, but a descriptor
        pickle.dump(given, file)
    command = [sys.executable, "-m", __name__, str(kept)]
    os.execve(sys.executable, command, launch.make_environment())


def go_on(kept: int) -> None:
    """Import torch, fork a zygote, then run the command that was kept in this file."""
    from grader.ui import cli

    gc.disable()
    try:
        ahead = launch.adopt_zygote(*zygote.fork_zygote())
    except KeyboardInterrupt:
        cli.fail("interrupted")
    gc.enable()
    given = read_command(kept)
    given.take_on()
    with ahead:
        cli.main(lambda device: ahead, given.name)


def read_command(kept: int) -> GivenCommand:
    """Read the command, and close the file."""
    with open(kept, "rb") as file:  # noqa: PTH123 - no path, but a descriptor
        file.seek(0)
        given: GivenCommand = pickle.load(file)
    return given


if __name__ == "__main__":
    go_on(int(sys.argv[1]))
