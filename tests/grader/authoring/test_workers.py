"""Whatever an answer does to the process that judges it, the others are judged."""

import multiprocessing
import os
import time

import pytest

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, AnswerKind
from headcheck.grader.authoring import workers
from headcheck.grader.authoring.answers import spread
from headcheck.grader.authoring.judging import DOES_NOT_END, ENDS_ITS_PROCESS, Judged
from headcheck.grader.authoring.workers import judge_all

pytestmark = pytest.mark.filterwarnings("ignore:.*multi-threaded:DeprecationWarning")
EXERCISE = BY_SLUG["linear_layer"]


@pytest.fixture(autouse=True)
def forked_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    """A new interpreter takes seconds to import torch; test_author.py judges in such ones."""
    monkeypatch.setattr(workers, "CONTEXT", multiprocessing.get_context("fork"))


def make_answer(name: str) -> Answer:
    return Answer(EXERCISE.slug, AnswerKind.MUTANT, name, "", "")


def misbehave(answer: Answer, exercise: Exercise) -> Judged:
    """Do what the name of an answer says."""
    if answer.name == "end":
        os._exit(3)
    if answer.name == "hang":
        time.sleep(1000)
    while answer.name == "spin":
        pass
    return Judged(answer, same=True)


def test_an_answer_that_ends_its_process_is_caught_by_that() -> None:
    names = ["good", "end", "good"]
    judged = judge_all(EXERCISE, [make_answer(name) for name in names], 2, misbehave)
    assert [each.answer.name for each in judged] == names
    fates = [each.caught_by for each in judged]
    assert fates == [None, ENDS_ITS_PROCESS, None]


def test_an_answer_that_hangs_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(workers, "TIME_LIMIT_S", 0.5)
    judged = judge_all(EXERCISE, [make_answer("hang"), make_answer("good")], 1, misbehave)
    assert [each.caught_by for each in judged] == [DOES_NOT_END, None]


def test_nothing_is_judged_without_answers() -> None:
    assert judge_all(EXERCISE, [], 2) == []


def test_what_is_not_judged_in_time_is_left_out() -> None:
    answers = [make_answer("good"), make_answer("spin"), make_answer("good")]
    judged = judge_all(EXERCISE, answers, 1, misbehave, seconds=2.0)
    assert [each.answer.name for each in judged] == ["good"]


def test_the_beginning_of_the_changes_is_a_sample_of_all() -> None:
    changes = [make_answer(str(number)) for number in range(100)]
    order = [int(each.name) for each in spread(changes)]
    assert order[0] == 0 and sorted(order) == list(range(100))
    assert all(any(low <= n < low + 20 for n in order[1:12]) for low in range(0, 100, 20))
