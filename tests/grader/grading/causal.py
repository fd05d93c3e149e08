"""The solution of one exercise, changed here and there, and what its script finds."""

from headcheck.exercises import BY_SLUG
from headcheck.grader.batch.message import Comparison
from headcheck.grader.batch.plan import get_batch_plan
from headcheck.grader.sandbox.grader_side import subject
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from tests.submissions import execute

EXERCISE = BY_SLUG["causal_attention"]
BATCH_PLAN = get_batch_plan(EXERCISE, EXERCISE.contract.mappings, 0, "cpu")
NAME = EXERCISE.contract.name
MIXED = "attn_weights @ values"


def make_subject(source: str) -> ChannelSubject:
    return subject.make_subject(execute(source), source)


def change_solution(old: str, new: str) -> str:
    """The solution with one thing changed."""
    assert old in EXERCISE.solution
    return EXERCISE.solution.replace(old, new)


def compare_answers(source: str) -> Comparison:
    return BATCH_PLAN.run_on(make_subject(source), NAME)
