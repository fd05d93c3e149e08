"""Explain failures in stages: each stage adds to a report, and no verdict depends on a stage.

So if headcheck itself fails at a stage, the report only lacks that stage's part.
"""

import contextlib
import functools
from collections.abc import Callable, Sequence
from typing import TypeVar

from headcheck.grader import fault
from headcheck.grader.grading import evidence, explain
from headcheck.grader.grading.consequences import Explained
from headcheck.grader.grading.examples import explain_with_examples
from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.live_checker import LiveChecker
from headcheck.grader.grading.recording import (
    Explanation,
    list_locations,
    record_properties,
    record_search,
)
from headcheck.grader.grading.search import SearchResult
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import DiagnosisRecord, Excerpt, NoteRecord
from headcheck.grader.sandbox.grader_side.servers import SandboxError
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import SubmissionFailed

T = TypeVar("T")


def explain_failures(
    live: LiveChecker,
    target: Target,
    settings: Settings,
    verdicts: Sequence[Verdict],
    searched: SearchResult | None = None,
) -> Explanation:
    """Return points, diagnosed mistakes and their consequences, examples, evidence, excerpts.

    Raises SubmissionFailed.
    """
    session, harness = live.session, live.harness
    found = () if searched is None else tuple(searched.found)
    begun = harness.get_searched()
    for _ in session.iter_tries():
        faults: list[NoteRecord] = []
        harness.go_back_to(begun)
        with contextlib.suppress(SubmissionFailed):  # the verdicts stand, and are reported
            live.revive()
        diagnose = functools.partial(
            explain.diagnose_failures, session, harness, verdicts, settings.device
        )
        mistakes: Sequence[DiagnosedMistake] = _contain(faults, diagnose, ())
        exemplify = functools.partial(
            explain_with_examples,
            live,
            verdicts,
            mistakes,
            found,
            all_examples=settings.all_examples,
        )
        explained, shown = _contain(faults, exemplify, (Explained(), list(verdicts)))
        properties = record_properties(target.exercise, shown, settings.points, harness, searched)
        properties = explained.mark(properties, shown)
        named = explained.list_named(mistakes)
        describe = functools.partial(explain.record_diagnoses, session, named, harness.contract)
        diagnosis: Sequence[DiagnosisRecord] = _contain(faults, describe, [])
        besides = explained.structural and not mistakes
        if session.is_alive and not besides:  # else weights are right, or not what is wrong
            attach = functools.partial(
                evidence.attach_evidence, properties, shown, harness, mistakes
            )
            properties = _contain(faults, attach, properties)
        collect = functools.partial(collect_excerpts, session, list_locations(shown, diagnosis))
        source: Sequence[Excerpt] = _contain(faults, collect, [])
    record = None if searched is None else record_search(searched)
    told = (*explained.faults, *faults)
    return Explanation(tuple(properties), tuple(diagnosis), tuple(source), record, told)


def _contain(faults: list[NoteRecord], stage: Callable[[], T], otherwise: T) -> T:
    """Return the result of a stage; if headcheck fails there, `otherwise`, and add a note."""

    def report(text: str) -> None:
        faults.append(NoteRecord(fault.ERROR_KIND, text))

    return fault.contain(stage, otherwise, SubmissionFailed, SandboxError, report=report)
