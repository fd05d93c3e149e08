"""The cost of grading one more submission: `python -m benchmarks [SUBMISSIONS] [ROUNDS]`.

Grades a folder with one right answer and a folder with many, in turn, as whole processes in one
job, and prints the median of the differences, in which the time to start the interpreter and the
fork server cancels. The very first run is not measured, because it fills the caches on disk that
later runs use.
"""

import statistics
import sys
import tempfile
from pathlib import Path

from benchmarks import spending
from benchmarks.peers.classroom import write_solutions
from benchmarks.spending import ROOT, Command, Usage

SUBMISSIONS, ROUNDS = 12, 3


def main() -> None:
    """Measure and print."""
    given = [int(argument) for argument in sys.argv[1:]]
    submissions, rounds = [*given, *(SUBMISSIONS, ROUNDS)[len(given) :]]
    with tempfile.TemporaryDirectory() as scratch:
        home, few, many = (Path(scratch, name) for name in ("home", "few", "many"))
        home.mkdir()
        write_solutions(few, 1)
        write_solutions(many, submissions)
        grade(few, home)
        pairs = [(grade(few, home), grade(many, home)) for _ in range(rounds)]
    for name, what in (("processor", "cpu"), ("wall", "wall")):
        took = [(getattr(one, what), getattr(all_, what)) for one, all_ in pairs]
        start = statistics.median(one for one, _ in took)
        each = statistics.median((all_ - one) / (submissions - 1) for one, all_ in took)
        print(f"{name:<10} {start:.2f} s with one submission, {each:.2f} s for each further one")


def grade(folder: Path, home: Path) -> Usage:
    """Grade a folder of right answers."""
    words = ("-m", "headcheck", "grade", str(folder), "--format", "json", "--jobs", "1")
    return spending.run(Command((sys.executable, *words), ROOT), home)


if __name__ == "__main__":
    main()
