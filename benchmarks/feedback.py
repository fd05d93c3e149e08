"""What feedback costs: `python -m benchmarks.feedback [ANSWERS] [SLUG]`.

Grades ANSWERS wrong answers to an exercise and as many right ones, as trusted code in this process.
Prints the cost of collecting the evidence for pictures and marked lines, the cost of rendering the
page, and the size of pages: the median and the maximum of each.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import wraps
from pathlib import Path
from typing import ParamSpec, TypeVar
from unittest import mock

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import Answer, list_answers, write_answer
from headcheck.exercises.exercise import Exercise
from headcheck.grader.grading.evidence import attach_evidence
from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord, build_report
from headcheck.grader.report.render import html, text
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox

ANSWERS, SLUG = 24, "multi_head_attention"
P = ParamSpec("P")
T = TypeVar("T")


@dataclass
class CallTimer:
    """Measures the processor time of each call, in seconds."""

    spent: list[float] = field(default_factory=list)

    def wrap(self, function: Callable[P, T]) -> Callable[P, T]:
        """Return the same function with its calls timed."""

        @wraps(function)
        def called(*arguments: P.args, **named: P.kwargs) -> T:
            began = time.process_time()
            try:
                return function(*arguments, **named)
            finally:
                self.spent.append(time.process_time() - began)

        return called


def main() -> None:
    """Measure and print."""
    answers = int(sys.argv[1]) if len(sys.argv) > 1 else ANSWERS
    exercise = BY_SLUG[sys.argv[2] if len(sys.argv) > 2 else SLUG]
    with tempfile.TemporaryDirectory() as scratch:
        for kind in ("wrong", "right"):
            chosen = choose_answers(exercise, kind, answers)
            report_on(kind, exercise, [write_answer(each, Path(scratch)) for each in chosen])


def choose_answers(exercise: Exercise, kind: str, count: int) -> list[Answer]:
    """Return this many answers of a kind, evenly spread over the whole bank."""
    there = list_answers(exercise, kind)
    return there[:: max(1, len(there) // count)][:count]


def report_on(kind: str, exercise: Exercise, paths: Sequence[Path]) -> None:
    """Grade these answers, render their pages, and print the cost."""
    evidence, lines, pages, texts = CallTimer(), CallTimer(), CallTimer(), CallTimer()
    records: list[SubmissionRecord] = []
    with (
        mock.patch(
            "headcheck.grader.grading.evidence.attach_evidence", evidence.wrap(attach_evidence)
        ),
        mock.patch("headcheck.grader.grading.grade.collect_excerpts", lines.wrap(collect_excerpts)),
    ):
        for handed_in in find_submissions([str(path) for path in paths]):
            records += grade_file_or_raise(
                UnconfinedSandbox("trusted"), handed_in, Settings(exercise=exercise)
            )
    report = build_report(records)
    page, said = pages.wrap(html.render_page), texts.wrap(text.render)
    page(records[0], report)
    pages.spent.clear()  # the first one compiled the templates
    sizes = [len(page(record, report).encode()) / 1024 for record in records]
    for record in records:
        said(build_report([record]))
    drawn = sum(any(p.evidence for p in record.properties) for record in records)
    print(f"{kind}: {len(records)} submissions, {drawn} with pictures")
    for name, clock in (
        ("evidence", evidence),
        ("source", lines),
        ("page", pages),
        ("text", texts),
    ):
        print(format_row(name, [1000 * seconds for seconds in clock.spent], "ms"))
    print(format_row("size of a page", sizes, "KiB"))


def format_row(name: str, values: Sequence[float], unit: str) -> str:
    """Format a row: a name, the median and the maximum."""
    return f"  {name:<15} {statistics.median(values):6.1f} {unit}, at most {max(values):.1f}"


if __name__ == "__main__":
    main()
