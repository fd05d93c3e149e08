"""Judge a change of a solution: find the property it breaks, and compare its results.

The code is the instructor's own, as in an audit (`grader.audit.matrix`). Each answer is judged only
until it breaks a property.
"""

import functools
from collections.abc import Sequence
from dataclasses import dataclass, replace

from headcheck.exercises import Exercise
from headcheck.exercises.answers import Answer, AnswerKind
from headcheck.grader.audit.matrix import load_namespace
from headcheck.grader.authoring.behaviour import Behaviour, observe
from headcheck.grader.batch.check import check_by_batches
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status

DOES_NOT_END = "it does not end"
ENDS_ITS_PROCESS = "it ends its process"
DOES_NOT_RUN = "it cannot be loaded"


@dataclass(frozen=True, slots=True)
class Judged:
    """The verdict on a change of the solution."""

    answer: Answer
    caught_by: str | None = None
    """the first property that the change breaks"""
    mistake: str | None = None
    """the name of the mistake, if there is one"""
    same: bool = False
    """whether the change computes the same results as the solution on every case"""

    @property
    def is_equivalent(self) -> bool:
        """Whether nothing distinguishes it from the solution."""
        return self.same and self.caught_by is None

    @property
    def is_missed(self) -> bool:
        """Whether the change computes different results but breaks no property."""
        return not self.same and self.caught_by is None


def judge(answer: Answer, exercise: Exercise) -> Judged:
    """Judge one answer in this process; a right answer is judged only by its results."""
    try:
        same = _observe(answer, exercise).equals(_observe_solution(exercise))
    except ValueError:
        return Judged(answer, DOES_NOT_RUN)
    if not answer.is_wrong:
        return Judged(answer, same=same)
    harness = Harness(make_subject(load_namespace(answer)), exercise.contract)
    caught = _find_broken(exercise, harness)
    if caught is None:
        return Judged(answer, same=same or _is_same_by_other_names(answer, exercise, harness))
    return Judged(answer, caught.name, _name_mistake(answer, exercise), same)


def _find_broken(exercise: Exercise, harness: Harness) -> Property | None:
    """Return the first property that an answer breaks."""

    def check(prop: Property, cases: Sequence[Case]) -> Verdict:
        return find_first_failure(prop, harness, cases)

    verdicts = check_by_batches(harness, exercise, check)
    broken = (v for v in verdicts if v.status is not Status.PASSED and not v.unsupported)
    return next((verdict.property for verdict in broken), None)


def _is_same_by_other_names(answer: Answer, exercise: Exercise, harness: Harness) -> bool:
    """Whether the results are the same with the weights named as the harness found them."""
    found = replace(exercise, contract=harness.contract)
    return observe(load_namespace(answer), found).equals(_observe_solution(exercise))


def _name_mistake(answer: Answer, exercise: Exercise) -> str | None:
    """Return the name of the mistake that explains a wrong answer, if there is one."""
    found = diagnose(Harness(make_subject(load_namespace(answer)), exercise.contract))
    return found[0].mistake.name if len(found) == 1 else None


def _observe(answer: Answer, exercise: Exercise) -> Behaviour:
    return observe(load_namespace(answer), exercise)


@functools.cache
def _observe_solution(exercise: Exercise) -> Behaviour:
    answer = Answer(exercise.slug, AnswerKind.SOLUTION, "solution", "", exercise.solution)
    return _observe(answer, exercise)
