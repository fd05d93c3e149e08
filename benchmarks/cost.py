"""How the cost of grading grows: `python -m benchmarks.cost [--quick] [PART ...]`.

Parts: submissions (and jobs, and memory), cases, tokens, size. All are measured as whole processes
with all their child processes, on one torch thread. Prints a table for each part. With --quick,
fewer and smaller points are measured, which takes a few minutes; everything takes well over an
hour. A thousand tokens take half an hour of it, since errors are bounded query by query.
"""

import argparse
import sys
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import nbformat

from benchmarks import spending
from benchmarks.peers.classroom import make_class, write_solutions
from benchmarks.spending import ROOT, Command, Usage
from headcheck.exercises import BY_SLUG

EXERCISE = BY_SLUG["multi_head_attention"]

FURTHER_ANSWERS = 12
"""the number of additional right answers whose average cost is measured; only one where each takes
minutes
"""
LONG_TOKENS = 512
FEW_CASES = 3
"""the number of cases for each claim if cases are large, as in the exercise of GPT-2's size"""
SAMPLING_S = 0.5
JOBS = (1, 2)
SMALL = {"batch": 2, "d_in": 16, "heads": 2, "head_dim": 8}
SUBMISSIONS, QUICK_SUBMISSIONS = (10, 100, 500, 2000), (2, 10)
CASES, QUICK_CASES = (10, 24, 100, 300, 1000), (10, 24)
TOKENS, QUICK_TOKENS = (8, 64, 256, 1024), (8, 64, 256)
SIZES, QUICK_SIZES = ((2, 16), (4, 64), (8, 256), (12, 768)), ((2, 16), (4, 64), (8, 256))
"""heads and width; the last is the smallest GPT-2"""


@dataclass(frozen=True)
class CostPoint:
    """The cost of grading right answers: the very first, one, and each additional one."""

    first: Usage
    one: Usage
    many: Usage
    more: int
    cases: int

    def __str__(self) -> str:
        cells = [
            self.cases,
            f"{self.first.cpu:.2f}",
            f"{self.one.cpu:.2f}",
            f"{(self.many.cpu - self.one.cpu) / self.more:.3f}",
            f"{(self.many.wall - self.one.wall) / self.more:.3f}",
            f"{self.many.largest / 1e6:.0f} MB",
        ]
        return " | ".join(map(str, cells))


POINT_HEADER = (
    "| cases in all | CPU s, the first ever | CPU s with one submission "
    "| CPU s, each further | wall s, each further | largest process |\n"
    "|---|---|---|---|---|---|---|"
)


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser("python -m benchmarks.cost")
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="few points, and small ones")
    asked = parser.parse_args()
    if unknown := set(asked.parts) - set(PARTS):
        parser.error(f"no such part: {', '.join(unknown)}; there are {', '.join(PARTS)}")
    for part in asked.parts or PARTS:
        print(f"\n{part}\n", flush=True)
        PARTS[part](asked.quick)


def measure_by_submissions(quick: bool) -> None:
    """Measure a class of which half the answers are right, with one job and with two."""
    print("| submissions | jobs | CPU s each | wall s each | wall s | largest process | together |")
    print("|---|---|---|---|---|---|---|")
    for count in QUICK_SUBMISSIONS if quick else SUBMISSIONS:
        with tempfile.TemporaryDirectory() as scratch:
            home, folder = Path(scratch, "home"), Path(scratch, "class")
            home.mkdir()
            folder.mkdir()
            for student in make_class(count):
                nbformat.write(student.make_notebook(), folder / f"{student.name}.ipynb")
            _grade_class(folder / "student0000.ipynb", 1, home)  # so that the script is there
            for jobs in JOBS:
                _show_class(count, jobs, _grade_class(folder, jobs, home))


def _grade_class(path: Path, jobs: int, home: Path) -> Usage:
    options = ("--exercise", EXERCISE.slug, "--format", "json", "--jobs", str(jobs))
    command = Command((sys.executable, "-m", "headcheck", "grade", str(path), *options), ROOT)
    return spending.run(command, home, every=SAMPLING_S, ok_statuses=(0, 1))


def _show_class(count: int, jobs: int, spent: Usage) -> None:
    each = f"{spent.cpu / count:.3f} | {spent.wall / count:.3f}"
    memory = f"{spent.largest / 1e6:.0f} MB | {spent.together / 1e6:.0f} MB"
    print(f"| {count} | {jobs} | {each} | {spent.wall:.1f} | {memory} |", flush=True)


def measure_by_cases(quick: bool) -> None:
    """Vary the largest number of cases for each claim; claims with their own limits keep these."""
    print(f"| cases of a claim, at most {POINT_HEADER}")
    for count in QUICK_CASES if quick else CASES:
        print(f"| {count} | {measure_point(count, {})} |", flush=True)


def measure_by_tokens(quick: bool) -> None:
    """Measure sequences as long as the context, in a small module."""
    print(f"| tokens {POINT_HEADER}")
    for tokens in QUICK_TOKENS if quick else TOKENS:
        sizes = {**SMALL, "tokens": tokens, "context_length": tokens}
        print(f"| {tokens} | {measure_point(FEW_CASES, sizes)} |", flush=True)


def measure_by_size(quick: bool) -> None:
    """Measure modules as wide as their tokens."""
    print(f"| heads × width of a head {POINT_HEADER}")
    for heads, width in QUICK_SIZES if quick else SIZES:
        sizes = {"batch": 2, "d_in": width, "heads": heads, "head_dim": width // heads}
        print(f"| {heads} × {width // heads} | {measure_point(FEW_CASES, sizes)} |", flush=True)


def measure_point(cases: int, sizes: Mapping[str, int]) -> CostPoint:
    """Grade one right answer in a fresh home, grade it again, and then grade more answers."""
    with tempfile.TemporaryDirectory() as scratch:
        home, one, many = (Path(scratch, name) for name in ("home", "one", "many"))
        home.mkdir()
        write_solutions(one, 1)
        more = 1 if sizes.get("tokens", 0) > LONG_TOKENS else FURTHER_ANSWERS
        write_solutions(many, 1 + more)
        words = (str(cases), *(f"{name}={size}" for name, size in sizes.items()))
        first, again, all_ = (_grade_resized(folder, words, home) for folder in (one, one, many))
    return CostPoint(first, again, all_, more, cases=int(all_.stdout.split()[1]))


def _grade_resized(folder: Path, words: tuple[str, ...], home: Path) -> Usage:
    command = Command((sys.executable, "-m", "benchmarks.sized", str(folder), *words), ROOT)
    spent = spending.run(command, home)
    if int(spent.stdout.split()[0]) != len(list(folder.iterdir())):
        raise SystemExit(f"a right answer did not pass: benchmarks.sized {' '.join(words)}")
    return spent


PARTS: Mapping[str, Callable[[bool], None]] = {
    "submissions": measure_by_submissions,
    "cases": measure_by_cases,
    "tokens": measure_by_tokens,
    "size": measure_by_size,
}

if __name__ == "__main__":
    main()
