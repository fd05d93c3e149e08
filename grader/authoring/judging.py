"""Judge the changes of a solution, side by side in child processes: what each breaks, if anything.

The code is the instructor's own, as in an audit (`grader.audit.matrix`), and each of its answers
is judged until the first property breaks. One that hangs is given up, and counts as caught.
"""

import contextlib
import functools
import multiprocessing
import signal
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, replace
from types import FrameType
from typing import TypeVar

from exercises import Exercise
from exercises.answers import Answer, AnswerKind
from grader.audit.matrix import initialise_process, load_namespace
from grader.authoring.behaviour import Behaviour, observe
from grader.batch.check import check_all
from grader.sandbox.grader_side.subject import make_subject
from properties.case import Case
from properties.check import find_first_failure
from properties.harness.harness import Harness
from properties.mistakes.diagnosis import diagnose
from properties.property import Property, Verdict
from properties.violation import Status

T = TypeVar("T")
TIME_LIMIT_S = 20.0
"""so long may an answer take to be judged"""
DOES_NOT_END = "it does not end"
ENDS_ITS_PROCESS = "it ends its process"
DOES_NOT_RUN = "it cannot be loaded"


@dataclass(frozen=True, slots=True)
class Judged:
    """What became of a change of the solution."""

    answer: Answer
    caught_by: str | None = None
    """the first property that it breaks"""
    mistake: str | None = None
    """the name of the mistake that it makes, if it has one"""
    same: bool = False
    """whether it computes the same as the solution on every case"""

    @property
    def is_equivalent(self) -> bool:
        """Whether nothing tells it from the solution."""
        return self.same and self.caught_by is None

    @property
    def is_missed(self) -> bool:
        """Whether it computes something else, and no property says so."""
        return not self.same and self.caught_by is None


class _Caught(BaseException):
    """A property is broken; what follows need not be tried."""

    def __init__(self, prop: Property) -> None:
        self.property = prop


class _OutOfTime(BaseException):
    """An answer has taken too long."""


def judge_all(exercise: Exercise, answers: Sequence[Answer], jobs: int) -> list[Judged]:
    """Judge every answer, in `jobs` child processes: right ones by what they compute alone.

    One that ends its process is caught by that. Which one it was is found by judging those that
    it may have been each in a process of its own.
    """
    done: dict[str, Judged] = {}
    while rest := [answer for answer in answers if answer.source not in done]:
        done |= _judge_some(exercise, rest, jobs)
        suspects = [answer for answer in rest if answer.source not in done][:jobs]
        for answer in suspects:
            alone = _judge_some(exercise, [answer], 1)
            done[answer.source] = alone.get(answer.source, Judged(answer, ENDS_ITS_PROCESS))
    return [done[answer.source] for answer in answers]


def _judge_some(exercise: Exercise, answers: Sequence[Answer], jobs: int) -> dict[str, Judged]:
    """Judge answers until all are, or a process ends; return what is known, by their sources."""
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=initialise_process) as pool:
        waiting = [pool.submit(judge, answer, exercise) for answer in answers]
        done = {}
        for answer, future in zip(answers, waiting, strict=True):
            with contextlib.suppress(BrokenProcessPool):
                done[answer.source] = future.result()
        return done


def judge(answer: Answer, exercise: Exercise) -> Judged:
    """Judge one answer, in this process, within a limit of time."""
    try:
        return _within_limit(lambda: _judge(answer, exercise))
    except _OutOfTime:
        return Judged(answer, DOES_NOT_END)


def _judge(answer: Answer, exercise: Exercise) -> Judged:
    try:
        same = _observe(answer, exercise).equals(_observe_solution(exercise))
    except ValueError:
        return Judged(answer, DOES_NOT_RUN)
    if not answer.is_wrong:
        return Judged(answer, same=same)
    harness = Harness(make_subject(load_namespace(answer)), exercise.contract)
    caught = _find_broken(answer, exercise, harness)
    if caught is None:
        return Judged(answer, same=same or _is_same_by_other_names(answer, exercise, harness))
    return Judged(answer, caught.name, _name_mistake(answer, exercise), same)


def _find_broken(answer: Answer, exercise: Exercise, harness: Harness) -> Property | None:
    """Return the first property that an answer breaks."""

    def check(prop: Property, cases: Sequence[Case]) -> Verdict:
        verdict = find_first_failure(prop, harness, cases)
        if verdict.status is not Status.PASSED and not verdict.unsupported:
            raise _Caught(prop)
        return verdict

    def restart() -> None:
        harness.subject = make_subject(load_namespace(answer))
        harness.forget()

    try:
        check_all(harness, exercise, check, restart)
    except _Caught as caught:
        return caught.property
    return None


def _is_same_by_other_names(answer: Answer, exercise: Exercise, harness: Harness) -> bool:
    """Whether it computes the same by the names under which the harness found its weights."""
    found = replace(exercise, contract=harness.contract)
    return observe(load_namespace(answer), found).equals(_observe_solution(exercise))


def _name_mistake(answer: Answer, exercise: Exercise) -> str | None:
    """Return the name of the mistake that explains an answer, if there is one."""
    found = diagnose(Harness(make_subject(load_namespace(answer)), exercise.contract))
    return found[0].mistake.name if len(found) == 1 else None


def _observe(answer: Answer, exercise: Exercise) -> Behaviour:
    return observe(load_namespace(answer), exercise)


@functools.cache
def _observe_solution(exercise: Exercise) -> Behaviour:
    answer = Answer(exercise.slug, AnswerKind.SOLUTION, "solution", "", exercise.solution)
    return _observe(answer, exercise)


def _within_limit(action: Callable[[], T]) -> T:
    """Do something, and give up after a while. Raises _OutOfTime."""
    before = signal.signal(signal.SIGALRM, _give_up)
    signal.setitimer(signal.ITIMER_REAL, TIME_LIMIT_S, 1.0)  # again: code may catch everything
    try:
        return action()
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def _give_up(number: int, frame: FrameType | None) -> None:
    raise _OutOfTime
