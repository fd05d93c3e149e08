"""The solution of one exercise, changed here and there, and what its script finds."""

from typing import Any

from exercises import BY_SLUG
from grader.batch.message import Found
from grader.batch.plan import script_of
from grader.sandbox.grader_side.subject import ChannelSubject, of_namespace

EXERCISE = BY_SLUG["causal_attention"]
SCRIPT = script_of(EXERCISE, EXERCISE.contract.slots, 0, "cpu")
NAME = EXERCISE.contract.name
MIXED = "attn_weights @ values"


def loaded(source: str) -> dict[str, Any]:
    namespace: dict[str, Any] = {"__name__": "submission"}
    exec(source, namespace)
    return namespace


def subject_of(source: str) -> ChannelSubject:
    return of_namespace(loaded(source))


def changed(old: str, new: str) -> str:
    """The solution with one thing changed."""
    assert old in EXERCISE.solution
    return EXERCISE.solution.replace(old, new)


def found_in(source: str) -> Found:
    return SCRIPT.put_to(subject_of(source), NAME)
