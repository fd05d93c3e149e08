"""`check`: a definition of this very process, judged as `headcheck check` would judge its file."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from grader.grading.grade import Settings, grade_definition
from grader.grading.infer import Target
from grader.reading.submission import Submission
from grader.report import render
from grader.report.records import SubmissionRecord, build_report
from grader.sandbox.grader_side.session import Session
from grader.seed import make_seed
from grader.ui.jupyter.asked import CannotCheck, find_target
from grader.ui.jupyter.live import LiveSandbox, SourceText, find_source_text
from grader.ui.jupyter.progress import Progress
from grader.ui.jupyter.untouched import preserve_global_state

MAX_CLAIMS_NAMED = 3
"""how many of the claims that do not hold are named when a check is stopped"""


class CheckInterrupted(KeyboardInterrupt):
    """A check was interrupted; the message says what was known by then. Nothing else is changed."""

    def _render_traceback_(self) -> list[str]:
        return [f"headcheck: {self}"]


@dataclass(frozen=True)
class CheckResult:
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
        return render.text.render(build_report([self.record])).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render.html.render_fragment(self.record)

    def _repr_mimebundle_(self, **kinds: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def check(definition: object, exercise: str | None = None, *, seed: int = 0) -> CheckResult:
    """Judge a class or a function that is defined here; the result shows itself in a notebook.

    The exercise is told from name and arguments, unless it is named. What else an exercise needs
    is taken from where `check` is called. `seed` chooses the cases; 0 are the public ones.

    Raises CannotCheck, with what to write instead; Stopped when it is interrupted.
    """
    caller = sys._getframe(1)
    return check_in_namespace(definition, exercise, {**caller.f_globals, **caller.f_locals}, seed)


def check_in_namespace(
    definition: object, exercise: str | None, namespace: Mapping[str, Any], seed: int = 0
) -> CheckResult:
    """The same, with the names that are known. Raises CannotCheck, Stopped."""
    if type(seed) is not int or seed < 0:
        raise CannotCheck(f"seed is a whole number from 0 on, not {seed!r}"[:200])
    text = find_source_text(definition)
    target = find_target(definition, exercise, namespace, text)
    progress = Progress(target.name, len(target.exercise.properties))
    try:
        with preserve_global_state(), progress:
            return CheckResult(
                _grade({**namespace, target.name: definition}, text, target, seed, progress)
            )
    except KeyboardInterrupt:
        raise CheckInterrupted(_describe_progress(progress)) from None
    except Exception as ours:
        ours.add_note("a fault of headcheck itself: please report it, with these lines")
        raise


def _grade(
    namespace: Mapping[str, Any], text: SourceText, target: Target, seed: int, progress: Progress
) -> SubmissionRecord:
    settings = Settings(exercise=target.exercise, seed=make_seed(seed))
    limits = settings.get_limits(target.exercise)
    reading = Session(LiveSandbox(namespace, text), text.data, text.kind, limits)
    handed_in = Submission(Path(text.display_name), text.display_name, target.name)
    return grade_definition(reading, handed_in, target, settings, progress.update)


def _describe_progress(progress: Progress) -> str:
    """What was known when a check was stopped, in a line."""
    message = f"stopped after {progress.done} of {progress.claims} claims about {progress.name}"
    broken = [verdict.property.claim for verdict in progress.broken]
    if not progress.done:
        return f"stopped before the first claim about {progress.name} was judged."
    if not broken:
        return f"{message}; none of these was broken. Run the cell again to check them all."
    named = " ".join(f"“{claim}”" for claim in broken[:MAX_CLAIMS_NAMED])
    more = f" and {len(broken) - MAX_CLAIMS_NAMED} more" if len(broken) > MAX_CLAIMS_NAMED else ""
    return f"{message}; broken by then: {named}{more}. Run the cell again to check them all."
