"""The cost of a command, with all processes that it starts: see `benchmarks/reaper.py`."""

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

ROOT = Path(__file__).resolve().parents[1]
REAPER = ROOT / "benchmarks" / "reaper.py"
ONE_THREAD = {f"{name}_NUM_THREADS": "1" for name in ("OMP", "MKL", "OPENBLAS", "NUMEXPR")}


class CommandFailed(Exception):
    """The command failed, so nothing was measured; the message has its output."""


@dataclass(frozen=True)
class Command:
    """A command to run: its words, its working folder, and additional environment variables."""

    words: tuple[str, ...]
    folder: Path
    more: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Usage:
    """The cost of a run: seconds and bytes."""

    wall: float
    cpu: float
    largest: int
    together: int = 0
    status: int = 0
    stdout: str = ""
    """standard output"""


def run(
    command: Command, home: Path, *, every: float = 0.0, ok_statuses: Sequence[int] = (0,)
) -> Usage:
    """Run a command with one thread and its own home folder; sample memory every `every` seconds.

    Raises CommandFailed if its exit status is not among `ok_statuses`.
    """
    ours, theirs = os.pipe()
    words = [sys.executable, "-I", str(REAPER), str(theirs), str(every), *command.words]
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err, os.fdopen(ours) as told:
        ended = subprocess.run(
            words,
            cwd=command.folder,
            env={**build_environment(home), **command.more},
            pass_fds=[theirs],
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=err,
        )
        os.close(theirs)
        said, complained = (_read_text(file) for file in (out, err))
        known = json.loads(told.read() or "{}")
        if ended.returncode or known["status"] not in ok_statuses:
            status = known.get("status", "no status")
            shown = f"{said[-2000:]}\n{complained[-2000:]}"
            raise CommandFailed(f"{' '.join(command.words)} ended with {status}:\n{shown}")
    return Usage(stdout=said, **known)


def _read_text(file: IO[bytes]) -> str:
    file.seek(0)
    return file.read().decode("utf-8", "replace")


def build_environment(home: Path) -> dict[str, str]:
    """Return an environment with one thread and without access to the user's own folders."""
    jupyter = {f"JUPYTER_{what}_DIR": str(home / what.lower()) for what in ("CONFIG", "DATA")}
    return {
        **os.environ,
        **ONE_THREAD,
        **jupyter,
        "HOME": str(home),
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
        "IPYTHONDIR": str(home / "ipython"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
        "XDG_CACHE_HOME": str(home / "cache"),
    }


def sum_usage(parts: Iterable[Usage]) -> Usage:
    """Return the usage of several commands, run one after another."""
    all_ = list(parts)
    return Usage(
        wall=sum(part.wall for part in all_),
        cpu=sum(part.cpu for part in all_),
        largest=max(part.largest for part in all_),
        together=max(part.together for part in all_),
    )
