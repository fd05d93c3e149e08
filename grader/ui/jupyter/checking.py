"""`check`: a definition of this very process, judged as `headcheck check` would judge its file."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.grading.grade import Settings, judged
from grader.grading.infer import Target
from grader.reading.submission import Submission
from grader.report import render
from grader.report.records import SubmissionRecord, report_of
from grader.sandbox.grader_side.session import Session
from grader.seed import given
from grader.ui.jupyter.asked import CannotCheck, target_of
from grader.ui.jupyter.live import Live, Text, text_of
from grader.ui.jupyter.progress import Progress
from grader.ui.jupyter.untouched import untouched

HARDLY_MORE = 3
"""how many of the claims that do not hold are named when a check is stopped"""


class Stopped(KeyboardInterrupt):
    """A check was interrupted; the message says what was known by then. Nothing else is changed."""

    def _render_traceback_(self) -> list[str]:
        return [f"headcheck: {self}"]


@dataclass(frozen=True)
class Checked:
    """What a check found: it shows itself where it is the last line of a cell."""

    record: SubmissionRecord

    @property
    def score(self) -> float:
        """Points earned, of `record.max_score`."""
        return self.record.score

    @property
    def passed(self) -> bool:
        """Whether every claim holds."""
        return self.record.status == "passed"

    def __str__(self) -> str:
        return render.text.render(report_of([self.record])).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render.html.fragment(self.record)

    def _repr_mimebundle_(self, **kinds: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def check(made: object, exercise: str | None = None, *, seed: int = 0) -> Checked:
    """Judge a class or a function that is defined here; the result shows itself in a notebook.

    The exercise is told from name and arguments, unless it is named. What else an exercise needs
    is taken from where `check` is called. `seed` chooses the cases; 0 are the public ones.

    Raises CannotCheck, with what to write instead; Stopped when it is interrupted.
    """
    caller = sys._getframe(1)
    return checked(made, exercise, {**caller.f_globals, **caller.f_locals}, seed)


def checked(
    made: object, exercise: str | None, namespace: Mapping[str, Any], seed: int = 0
) -> Checked:
    """The same, with the names that are known. Raises CannotCheck, Stopped."""
    if type(seed) is not int or seed < 0:
        raise CannotCheck(f"seed is a whole number from 0 on, not {seed!r}"[:200])
    text = text_of(made)
    target = target_of(made, exercise, namespace, text)
    progress = Progress(target.name, len(target.exercise.properties))
    try:
        with untouched(), progress:
            return Checked(_judged({**namespace, target.name: made}, text, target, seed, progress))
    except KeyboardInterrupt:
        raise Stopped(_so_far(progress)) from None
    except Exception as ours:
        ours.add_note("a fault of headcheck itself: please report it, with these lines")
        raise


def _judged(
    namespace: Mapping[str, Any], text: Text, target: Target, seed: int, progress: Progress
) -> SubmissionRecord:
    settings = Settings(exercise=target.exercise, seed=given(seed))
    limits = settings.limits_for(target.exercise)
    reading = Session(Live(namespace, text), text.data, text.kind, limits)
    handed_in = Submission(Path(text.shown), text.shown, target.name)
    return judged(reading, handed_in, target, settings, progress.watch)


def _so_far(progress: Progress) -> str:
    """What was known when a check was stopped, in a line."""
    said = f"stopped after {progress.done} of {progress.claims} claims about {progress.name}"
    broken = [verdict.property.claim for verdict in progress.broken]
    if not progress.done:
        return f"stopped before the first claim about {progress.name} was judged."
    if not broken:
        return f"{said}; none of these was broken. Run the cell again to check them all."
    named = " ".join(f"“{claim}”" for claim in broken[:HARDLY_MORE])
    more = f" and {len(broken) - HARDLY_MORE} more" if len(broken) > HARDLY_MORE else ""
    return f"{said}; broken by then: {named}{more}. Run the cell again to check them all."
