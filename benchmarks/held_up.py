"""How one file delays a class: `python -m benchmarks.held_up [--all] [--jobs N] [NAME ...]`.

Grades a class of twenty, and the same class with each file of `tests/hostile/costly.py` added in
turn, as whole processes. With such a file, a class may take 1.5 times as long as without it, and 20
s more; a file that delays it longer is marked, and the exit code is 1. Names select files; with
--all, files that try to get around the limits are included, too. The class without such a file is
measured before and after and both times are printed, because the load of the machine matters.
"""

import argparse
import os
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

import nbformat

from benchmarks import spending
from benchmarks.peers.classroom import make_class
from benchmarks.spending import ROOT, Command, Usage
from tests.hostile.costly import COSTLY, COSTLY_VARIANTS

STUDENTS = 20
TIMES, MORE_S = 1.5, 20.0


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.held_up")
    known = {**COSTLY, **COSTLY_VARIANTS}
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"some of {', '.join(known)}")
    parser.add_argument("--all", action="store_true", help="the ways around the limits, too")
    parser.add_argument("--jobs", type=int, help="as of the command")
    asked = parser.parse_args()
    if unknown := set(asked.names) - known.keys():
        parser.error(f"no such file: {', '.join(sorted(unknown))}")
    jobs = [] if asked.jobs is None else ["--jobs", str(asked.jobs)]
    sys.exit(measure_delay(asked.names or (list(known) if asked.all else list(COSTLY)), jobs))


def measure_delay(names: Sequence[str], jobs: Sequence[str]) -> int:
    """Print a row for each file; return 1 if a class took longer than it may."""
    known = {**COSTLY, **COSTLY_VARIANTS}
    with tempfile.TemporaryDirectory() as scratch:
        folder, home = Path(scratch, "class"), Path(scratch, "home")
        home.mkdir()
        folder.mkdir()
        for student in make_class(STUDENTS):
            nbformat.write(student.make_notebook(), folder / f"{student.name}.ipynb")
        grade_folder(folder, home, jobs)  # it leaves behind what later ones find on the disk
        print("| a class of 20 and | wall s | CPU s | may take | load |\n|---|---|---|---|---|")
        alone = print_row("nothing else", grade_folder(folder, home, jobs), None)
        most = TIMES * alone.wall + MORE_S
        took = []
        for name in names:
            # Among the others, so that somebody waits for it.
            costly = folder / "student0007_costly.py"
            costly.write_text(known[name], encoding="utf-8")
            took.append(print_row(f"`{name}`", grade_folder(folder, home, jobs), most).wall)
            costly.unlink()
        print_row("nothing else, again", grade_folder(folder, home, jobs), None)
    return int(any(wall > most for wall in took))


def grade_folder(folder: Path, home: Path, jobs: Sequence[str]) -> Usage:
    """Grade a folder. No exercise is named, so every definition in a file is judged."""
    words = (sys.executable, "-m", "headcheck", "grade", str(folder), "--format", "json", *jobs)
    return spending.run(Command(words, ROOT), home, ok_statuses=(0, 1))


def print_row(name: str, spent: Usage, most: float | None) -> Usage:
    """Print what was measured."""
    allowed = "" if most is None else f"{most:.0f}{' **too long**' if spent.wall > most else ''}"
    load = os.getloadavg()[0]
    print(f"| {name} | {spent.wall:.1f} | {spent.cpu:.1f} | {allowed} | {load:.1f} |", flush=True)
    return spent


if __name__ == "__main__":
    main()
