"""`check`: grade a definition of this process as `headcheck check` would grade its file."""

import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from exercises import Exercise
from exercises.exercise import BadContract
from grader.grading.grade import grade_definition
from grader.grading.infer import Target
from grader.grading.search_limit import BadSearch, parse_search
from grader.grading.settings import Settings
from grader.reading.submission import Submission
from grader.report import render
from grader.report.records import SubmissionRecord, build_report
from grader.sandbox.grader_side.session import Session
from grader.seed import make_seed
from grader.ui.jupyter.global_state import preserve_global_state
from grader.ui.jupyter.live import LiveSandbox, SourceText, find_source_text
from grader.ui.jupyter.progress import Progress
from grader.ui.jupyter.target import CannotCheck, find_target

MAX_CLAIMS_NAMED = 3
"""the number of failed properties named when a check is interrupted"""


class CheckInterrupted(KeyboardInterrupt):
    """A check was interrupted and its state restored; the message says what was known by then."""

    def _render_traceback_(self) -> list[str]:
        return [f"headcheck: {self}"]


@dataclass(frozen=True)
class CheckResult:
    """The result of a check, which a notebook displays as the last value of a cell."""

    record: SubmissionRecord

    @property
    def score(self) -> float:
        """Points earned, of `record.max_score`."""
        return self.record.score

    @property
    def passed(self) -> bool:
        """Whether every property holds."""
        return self.record.status == "passed"

    def __str__(self) -> str:
        return render.text.render(build_report([self.record])).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render.html.render_fragment(self.record)

    def _repr_mimebundle_(self, **kinds: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def check(
    definition: object,
    exercise: str | None = None,
    *,
    seed: int = 0,
    search: int | str | None = None,
) -> CheckResult:
    """Grade a class or a function defined in this process; a notebook displays the result.

    The exercise is inferred from name and arguments, unless its slug or its folder is given. Other
    definitions that it needs are taken from the caller. `seed` chooses the cases; 0 are the public
    ones. With `search`, generated cases are then tried on what holds: so many, or for "30s".

    Raises CannotCheck, with what to write instead, and CheckInterrupted.
    """
    caller = sys._getframe(1)
    namespace = {**caller.f_globals, **caller.f_locals}
    return check_in_namespace(definition, exercise, namespace, seed, search)


def check_in_namespace(
    definition: object,
    exercise: Exercise | str | None,
    namespace: Mapping[str, Any],
    seed: int = 0,
    search: int | str | None = None,
) -> CheckResult:
    """Do the same in a given namespace. Raises CannotCheck, CheckInterrupted."""
    if type(seed) is not int or seed < 0:
        raise CannotCheck(f"seed is a whole number from 0 on, not {seed!r}"[:200])
    try:
        limit = None if search is None else parse_search(str(search))
    except BadSearch as problem:
        raise CannotCheck(str(problem).replace("--search:", "search")) from None
    text = find_source_text(definition)
    target = find_target(definition, exercise, namespace, text)
    progress = Progress(target.name, len(target.exercise.properties))
    try:
        with preserve_global_state(), progress:
            own = {**namespace, target.name: definition}
            settings = Settings(exercise=target.exercise, seed=make_seed(seed), search=limit)
            return CheckResult(_grade(own, text, target, settings, progress))
    except KeyboardInterrupt:
        raise CheckInterrupted(_describe_progress(progress)) from None
    except BadContract as problem:
        raise CannotCheck(str(problem)) from None
    except Exception as error:
        error.add_note("a fault of headcheck itself: please report it, with these lines")
        raise


def _grade(
    namespace: Mapping[str, Any],
    text: SourceText,
    target: Target,
    settings: Settings,
    progress: Progress,
) -> SubmissionRecord:
    limits = settings.get_limits(target.exercise)
    session = Session(LiveSandbox(namespace, text), text.data, text.kind, limits)
    submission = Submission(Path(text.display_name), text.display_name, target.name)
    return grade_definition(
        session, submission, target, settings, progress.update, progress.update_search
    )


def _describe_progress(progress: Progress) -> str:
    """Return in a line what was known when a check was interrupted."""
    message = f"stopped after {progress.done} of {progress.claims} claims about {progress.name}"
    broken = [verdict.property.claim for verdict in progress.broken]
    if not progress.done:
        return f"stopped before the first claim about {progress.name} was judged."
    if not broken:
        return f"{message}; none of these was broken. Run the cell again to check them all."
    named = " ".join(f"“{claim}”" for claim in broken[:MAX_CLAIMS_NAMED])
    more = f" and {len(broken) - MAX_CLAIMS_NAMED} more" if len(broken) > MAX_CLAIMS_NAMED else ""
    return f"{message}; broken by then: {named}{more}. Run the cell again to check them all."
