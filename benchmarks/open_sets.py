"""How are strangers' files judged? `python -m benchmarks.open_sets FOLDER...`.

A FOLDER holds Python files of people who have seen nothing of headcheck, and `labels.toml`: for
each file the `label` "right" or "wrong" and the `kind` of file. They stay outside this repository:
a file that was looked into here measures nothing any more. Each file is graded without an exercise.
The table has a row for each set, and one for each kind of file; then come the files that are not
judged, and why. `--show` also names the files that are accused, and those whose mistake is missed.
The exit code is 1 if a right file is accused.
"""

import argparse
import itertools
import statistics
import sys
import time
import tomllib
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from headcheck.grader.grading.grade import grade_file
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import NOT_JUDGED, SubmissionRecord
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.properties.violations.violation import Status

JOBS = 2
HEAD = (
    "| set | files | judged rightly | accused | told | missed | not judged | median s | worst s |"
)
RIGHTLY = ("passed", "told", "left alone")
UNDECIDED = (Status.NOT_TRIED.value, Status.NOT_ASKED.value, NOT_JUDGED)


@dataclass(frozen=True)
class LabelledFile:
    """A file, and what is known of it."""

    path: Path
    label: str
    """right, wrong, or other: nothing that any contract covers"""
    kind: str


@dataclass(frozen=True)
class Judged:
    """What came of a file: passed, accused, told, missed, not judged, or rightly left alone."""

    file: LabelledFile
    outcome: str
    said: str
    seconds: float
    """how long it took, which on a busy machine says little"""


def main() -> None:
    """Grade, and print the table."""
    parser = argparse.ArgumentParser("python -m benchmarks.open_sets")
    parser.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    parser.add_argument("--show", action="store_true", help="name what is accused or missed")
    asked = parser.parse_args()
    sets = {folder.name: read_labels(folder) for folder in asked.folders}
    with ProcessPoolExecutor(JOBS) as pool:
        judged = {name: list(pool.map(judge, files)) for name, files in sets.items()}
    every = list(itertools.chain(*judged.values()))
    names = dict.fromkeys(one.file.kind for one in every)
    kinds = {kind: [one for one in every if one.file.kind == kind] for kind in names}
    print(HEAD, "|---" * 9 + "|", sep="\n")
    for name, found in {**judged, **kinds, "all": every}.items():
        print(write_row(name, found))
    for one in every:
        if one.outcome == "not judged" or (asked.show and one.outcome not in RIGHTLY):
            print(f"{one.outcome}: {one.file.path.name}: {one.said}")
    sys.exit(any(one.outcome == "accused" for one in every))


def read_labels(folder: Path) -> list[LabelledFile]:
    """Return the files of a set."""
    labels = tomllib.loads((folder / "labels.toml").read_text(encoding="utf-8"))
    return [
        LabelledFile(folder / f"{name}.py", label["label"], label["kind"])
        for name, label in labels.items()
    ]


def judge(file: LabelledFile) -> Judged:
    """Grade a file without an exercise."""
    began = time.monotonic()
    records = grade_alone(file.path)
    tried = [r for r in records if r.status not in UNDECIDED]
    wrong = [r for r in tried if r.status != Status.PASSED.value]
    said = next((r.error.message for r in records if r.error), "there is nothing to judge")
    seconds = time.monotonic() - began
    if not tried:
        outcome = "left alone" if file.label == "other" else "not judged"
        return Judged(file, outcome, said, seconds)
    told = ", ".join(f"{r.name} {r.status}" for r in wrong)
    if file.label == "wrong":
        return Judged(file, "told" if wrong else "missed", told, seconds)
    return Judged(file, "accused" if wrong else "passed", told, seconds)


def grade_alone(path: Path) -> Sequence[SubmissionRecord]:
    """Return the records of a file that belongs to no exercise."""
    [submission] = find_submissions([str(path)])
    with ServerHandle() as server:
        return grade_file(server, submission, Settings())


def write_row(name: str, judged: Sequence[Judged]) -> str:
    """Return a row of the table."""
    of = Counter(each.outcome for each in judged)
    rightly = sum(of[outcome] for outcome in RIGHTLY)
    seconds = [each.seconds for each in judged]
    counts = [of[outcome] for outcome in ("accused", "told", "missed", "not judged")]
    times = f"{statistics.median(seconds):.1f}", f"{max(seconds):.1f}"
    return f"| {' | '.join(map(str, (name, len(judged), rightly, *counts, *times)))} |"


if __name__ == "__main__":
    main()
