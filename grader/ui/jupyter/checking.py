"""`check`: grade a definition of this process as `headcheck check` would grade its file."""

import contextlib
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headcheck.exercises import Exercise
from headcheck.exercises.exercise import BadContract
from headcheck.grader.grading.definitions import DefinitionSignature
from headcheck.grader.grading.grade import grade_inferred
from headcheck.grader.grading.search_limit import BadSearch, parse_search
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.stated_roles import BadBinding
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.course_file import (
    BadCourseFile,
    CourseFile,
    find_course_file,
    read_course_file,
)
from headcheck.grader.report.feedback import FULL_FEEDBACK, Feedback, redact_submission
from headcheck.grader.report.records import SubmissionRecord, build_report
from headcheck.grader.report.render.html import render_fragment
from headcheck.grader.report.render.text import render as render_text
from headcheck.grader.run import make_settings
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.seed import make_seed
from headcheck.grader.ui.jupyter.global_state import preserve_global_state
from headcheck.grader.ui.jupyter.live import LiveSandbox, SourceText, find_source_text
from headcheck.grader.ui.jupyter.progress import Progress
from headcheck.grader.ui.jupyter.target import (
    CannotCheck,
    describe_definition,
    explain_unknown,
    find_exercise,
    find_name,
    infer_object,
)

MORE = "print(check(…).verbose)"
"""the expression that displays the collapsed parts"""
MAX_CLAIMS_NAMED = 3
"""the number of failed properties named when a check is interrupted"""


class CheckInterrupted(KeyboardInterrupt):
    """A check was interrupted and its state restored; the message says what the check had found."""

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

    @property
    def verbose(self) -> str:
        """The complete result as text: every failed check, including the collapsed ones."""
        return render_text(build_report([self.record])).rstrip("\n")

    def __str__(self) -> str:
        return render_text(build_report([self.record]), MORE).rstrip("\n")

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        return render_fragment(self.record)

    def _repr_mimebundle_(self, **kinds: object) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self._repr_html_()}


def check(
    definition: object,
    exercise: str | None = None,
    *,
    seed: int = 0,
    search: int | str | None = None,
    bind: str = "",
    course: str | None = None,
) -> CheckResult:
    """Grade a class or a function defined in this process; a notebook displays the result.

    The exercise is inferred from name and arguments, unless its slug or its folder is given. A
    class that answers no exercise is judged by what it computes. Other definitions that the class
    or function needs are taken from the caller. `seed` chooses the cases; 0 chooses the public
    ones. With `search`, the properties that hold are then tried on generated cases: on this many,
    or for a time such as "30s". `bind` corrects arguments whose meaning was inferred wrongly:
    "heads=n_head causal=yes". Points and the level of feedback come from the file `course`, or else
    from `headcheck.toml` beside the notebook or in the exercise's folder.

    Raises CannotCheck, with what to write instead, and CheckInterrupted.
    """
    caller = sys._getframe(1)
    namespace = {**caller.f_globals, **caller.f_locals}
    asked = make_request(exercise, seed, search, bind, course)
    return check_in_namespace(definition, asked, namespace)


def check_in_namespace(
    definition: object, asked: "Request", namespace: Mapping[str, Any]
) -> CheckResult:
    """Check a definition in a given namespace. Raises CannotCheck, CheckInterrupted."""
    text = find_source_text(definition)
    defined = describe_definition(find_name(definition, namespace), definition, text)
    record = judge(defined, {**namespace, defined.name: definition}, text, asked)
    if problem := explain_unknown(defined, record):
        raise CannotCheck(problem)
    return CheckResult(record)


@dataclass(frozen=True)
class Request:
    """The options of a check, from its arguments and from a course file."""

    settings: Settings
    feedback: Feedback = FULL_FEEDBACK
    """what is told"""


def make_request(
    exercise: Exercise | str | None = None,
    seed: int = 0,
    search: int | str | None = None,
    bind: str = "",
    course: str | None = None,
) -> Request:
    """Return the options of a check. Raises CannotCheck if one cannot be understood."""
    if type(seed) is not int or seed < 0:
        raise CannotCheck(f"seed is a whole number from 0 on, not {seed!r}"[:200])
    if not isinstance(bind, str):
        raise CannotCheck(f'bind is a text, such as "heads=n_head", not {bind!r}'[:200])
    try:
        limit = None if search is None else parse_search(str(search))
        named = None if exercise is None else find_exercise(exercise)
        rules = _read_course(course, named)
        settings = make_settings(
            named, rules, seed=make_seed(seed), search=limit, bindings=bind.split()
        )
    except (BadSearch, BadBinding) as problem:
        said = str(problem).replace("--search:", "search").replace("--bind ", "bind ")
        raise CannotCheck(said) from None
    return Request(settings, rules.feedback or FULL_FEEDBACK)


def _read_course(named: str | None, exercise: Exercise | None) -> CourseFile:
    """Return the named course file, or else the one that is found. Raises CannotCheck."""
    if named is not None and not isinstance(named, str):
        raise CannotCheck(f'course is the path of a file, as in "exam.toml", not {named!r}'[:200])
    path = find_course_file(exercise, Path()) if named is None else Path(named).expanduser()
    try:
        return read_course_file(path, exercise)
    except BadCourseFile as problem:
        raise CannotCheck(str(problem)) from None


def judge(
    defined: DefinitionSignature, namespace: Mapping[str, Any], text: SourceText, asked: Request
) -> SubmissionRecord:
    """Return a record limited to the allowed feedback. Raises CannotCheck, CheckInterrupted."""
    settings, feedback = asked.settings, asked.feedback
    inferred = infer_object(defined, settings.exercise)
    progress = Progress(defined.name)
    try:
        limits = settings.get_limits(settings.exercise)
        submission = Submission(Path(text.display_name), text.display_name, defined.name)
        session = Session(LiveSandbox(namespace, text), text.data, text.kind, limits)
        with preserve_global_state(), progress, contextlib.closing(session):
            [record] = grade_inferred(session, submission, settings, inferred, progress.follow)
            return redact_submission(record, feedback)
    except KeyboardInterrupt:
        raise CheckInterrupted(_describe_progress(progress, feedback)) from None
    except BadContract as problem:
        raise CannotCheck(str(problem)) from None
    except Exception as error:
        error.add_note("an internal error of headcheck: please report it, with these lines")
        raise


def _describe_progress(progress: Progress, feedback: Feedback) -> str:
    """Return one line on what was known when a check was interrupted."""
    message = f"stopped after {progress.done} of {progress.checks} checks of {progress.name}"
    shown = (v.property for v in progress.broken if v.property.name not in feedback.hidden)
    broken = [prop.claim for prop in shown]
    if not progress.done:
        return f"stopped before the first check of {progress.name} was done."
    if not progress.broken:
        return f"{message}; none of these failed. Run the cell again to check them all."
    if not broken:  # what is must not be told
        return f"{message}. Run the cell again to check them all."
    named = " ".join(f"“{claim}”" for claim in broken[:MAX_CLAIMS_NAMED])
    more = f" and {len(broken) - MAX_CLAIMS_NAMED} more" if len(broken) > MAX_CLAIMS_NAMED else ""
    return f"{message}; failed by then: {named}{more}. Run the cell again to check them all."
