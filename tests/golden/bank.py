"""What is told first to the authors of wrong answers, judged as `headcheck check` would."""

import re
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, list_answers, write_answer
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.pictures.captions import describe_evidence
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.report.render.view import make_view
from headcheck.grader.report.render.views import FailureView
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.properties.terms.depth import Depth
from tests.golden import texts
from tests.golden.texts import Text, format_row

PATIENT_LIMITS = {"call_s": 60.0, "total_s": 600.0, "cpu_s": 600}
"""so that a busy machine changes nothing"""


def list_wrong_answers(slug: str) -> list[Answer]:
    """The wrong answers to an exercise, by name."""
    return list_answers(BY_SLUG[slug], "wrong")


def list_announced(answer: Answer) -> list[str]:
    """The mistakes that a wrong answer says it has: `... (named: no_scale, no_mask)`."""
    found = re.search(r"\(named: ([\w, ]+)\)", answer.description)
    return found[1].split(", ") if found else []


def grade(server: ServerHandle, slug: str, answer: Answer) -> SubmissionRecord:
    """Judge an answer as `headcheck check` does."""
    settings = Settings(
        exercise=BY_SLUG[slug], limit_overrides=PATIENT_LIMITS, depth=Depth.THOROUGH
    )
    with tempfile.TemporaryDirectory() as scratch:
        path = write_answer(answer, Path(scratch))
        [handed_in] = find_submissions([str(path)])
        [record] = grade_file_or_raise(server, handed_in, settings)
    return replace(record, file=path.name)


def render_feedback(server: ServerHandle, slug: str, answer: Answer) -> Text:
    """What the author of an answer reads first."""
    shown = make_view(grade(server, slug, answer))
    mistakes = shown.diagnosis.sentences if shown.diagnosis else ()
    said = [format_row("mistake", sentence) for sentence in mistakes]
    said += [format_row("slip", sentence) for sentence in shown.repair]
    said += [format_row("place", shown.place.sentence)] if shown.place else []
    said += [format_row("error", shown.error.message)] if shown.error else []
    failures = shown.failures[:1]
    return (*said, *(row for each in failures for row in _iter_rows(each, BY_SLUG[slug])))


def _iter_rows(failure: FailureView, exercise: Exercise) -> Iterator[str]:
    """The rows about a claim, without the hint that is always given to it."""
    yield format_row("claim", failure.claim)
    own = next(
        (format_row("hint", c.hint) for c in exercise.properties if c.claim == failure.claim), ""
    )
    lines = (failure.details or failure.status).split("\n")
    yield from (line for line in lines if line != own)
    if failure.case:
        yield format_row("on", failure.case)
    for sentence in describe_evidence(failure.evidence)[:1] if failure.evidence else ():
        yield format_row("seen", sentence)


def write(wanted: Iterable[str]) -> Iterator[Path]:
    """Judge the wrong answers to exercises, or single ones, and keep what their authors read.

    `causal_attention` is all of an exercise, `causal_attention/stub` one answer to it.
    """
    names: dict[str, set[str]] = {}
    for each in wanted:
        slug, _, name = each.partition("/")
        names.setdefault(slug, set()).add(name)
    with ServerHandle(trusted=True) as server:
        for slug, chosen in names.items():
            yield _write_chosen(server, slug, chosen)


def write_reworded() -> Iterator[Path]:
    """Write the legends anew, and judge those whose claim or mistake is worded otherwise by now."""
    wanted = []
    for slug in BY_SLUG:
        kinds = texts.load_kinds(slug)
        yield texts.write_kinds(BY_SLUG[slug], kinds)
        wanted += [f"{slug}/{name}" for name in sorted(texts.find_reworded(BY_SLUG[slug], kinds))]
    if wanted:
        yield from write(wanted)


def _write_chosen(server: ServerHandle, slug: str, chosen: set[str]) -> Path:
    """Judge the chosen answers to an exercise; the name "" chooses all."""
    there = {answer.name: answer for answer in list_wrong_answers(slug)}
    kinds = texts.load_kinds(slug)
    again = set(there) if "" in chosen else texts.add_whole_kinds(kinds, there, chosen)
    judged = {name: render_feedback(server, slug, there[name]) for name in sorted(again)}
    return texts.write_kinds(BY_SLUG[slug], texts.regroup(kinds, there, judged))
