"""Answers learnt by heart are worth something on the cases that everybody knows, and only there."""

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.grader import seed
from headcheck.grader.report.points import award_points, distribute_points
from headcheck.properties.cases.case_set import PUBLIC_SEED
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import Status
from tests.exercises.tables import AnswerTable, judge_table, record_table

pytestmark = pytest.mark.filterwarnings("ignore")

EXERCISES = [e for e in ALL if e.slug != "gpt2_size" and e.contract.entry is not Entry.TRANSFER]
"""A class of GPT-2's size takes too long to hash, and a transfer answers nothing itself."""
SAMPLE = ("scaled_dot_product", "causal_attention", "masked_multi_head")


def held(verdicts: list[Verdict]) -> set[str]:
    return {v.property.name for v in verdicts if v.status is Status.PASSED}


def must_be_of_use_on_public_cases_only(exercise: Exercise) -> None:
    table = record_table(exercise)
    full = sum(distribute_points(exercise, None).values())
    public = judge_table(exercise, table, PUBLIC_SEED)
    assert sum(award_points(exercise, public, None)) == pytest.approx(full)

    secret = judge_table(exercise, table, seed.draw_secret_seed().value)
    empty = judge_table(exercise, AnswerTable(recording=False), seed.draw_secret_seed().value)
    assert sum(award_points(exercise, secret, None)) == 0
    # Nor would it be of use if something else had opened the gate: no claim rests on known cases.
    assert held(secret) <= held(empty)


@pytest.mark.sampled("slug", SAMPLE, SAMPLE[:1])
def test_a_table_of_public_answers_earns_nothing_at_a_secret_seed(slug: str) -> None:
    must_be_of_use_on_public_cases_only(BY_SLUG[slug])


@pytest.mark.deep
@pytest.mark.parametrize("exercise", EXERCISES, ids=lambda exercise: exercise.slug)
def test_no_exercise_has_known_cases_at_a_secret_seed(exercise: Exercise) -> None:
    must_be_of_use_on_public_cases_only(exercise)
