"""Recognise an unchanged starter, in which the student has not written anything yet.

The definitions of the submission are compared with those of the starter by their fingerprints,
which the process of the submission makes before any of its code runs. That process cannot gain
anything by false fingerprints: the only consequence is that nothing is judged and no points are
given.
"""

from collections.abc import Mapping, Sequence
from functools import cache

from headcheck.exercises import Exercise
from headcheck.exercises.starter import list_unwritten, render_module
from headcheck.grader.grading.infer import Target
from headcheck.grader.reading.cells import read_source
from headcheck.grader.reading.fingerprints import fingerprint_definitions
from headcheck.grader.report.records import ErrorRecord
from headcheck.grader.sandbox.grader_side.session import Session


def find_unwritten(session: Session, targets: Sequence[Target]) -> dict[str, ErrorRecord]:
    """Return the errors for definitions that are unchanged from the starter, by name.

    If an exercise has several parts, all of them must be unchanged. Call this function before any
    definition is judged. Raises SubmissionFailed.
    """
    starters = {target.name: fingerprint_starter(target.exercise) for target in targets}
    starters = {name: starter for name, starter in starters.items() if name in starter}
    names = sorted({part for starter in starters.values() for part in starter})
    if not names:
        return {}
    found = dict(zip(names, session.fetch_fingerprints(names), strict=False))
    return {
        target.name: ErrorRecord("unwritten", _write_message(target))
        for target in targets
        if (starter := starters.get(target.name)) and starter.items() <= found.items()
    }


@cache
def fingerprint_starter(exercise: Exercise) -> Mapping[str, str]:
    """Return the names of the definitions that students must write, and their starter fingerprints.

    The result is empty for an exercise without markers in its solution.
    """
    try:
        text = render_module(exercise)
    except (OSError, ValueError):
        return {}
    names = list_unwritten(text)
    found = fingerprint_definitions(read_source(text.encode(), "py"), names)
    return dict(zip(names, found, strict=True))


def _write_message(target: Target) -> str:
    slug = target.exercise.slug
    stuck = f" Stuck? headcheck hint {slug}" if target.exercise.is_ours else ""
    return (
        f"Nothing is written yet: `{target.name}` is still the starter. "
        f"Write your code where it says `# your code here`.{stuck}"
    )
