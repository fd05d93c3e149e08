"""Answers of the right form and without any sense earn nothing: the gate stays closed to them."""

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.grader.report.points import award_points
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import Entry
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import check_in_order
from tests.submissions import execute

pytestmark = pytest.mark.filterwarnings("ignore")

EXERCISES = [e for e in ALL if e.slug != "gpt2_size" and e.contract.entry is not Entry.TRANSFER]
"""The class of GPT-2's size is given, and a transfer has no output to make up."""


def copied(right: Tensor, x: Tensor) -> Tensor:
    """The input, repeated or cut to the wanted shape."""
    return x.flatten().repeat(1 + right.numel() // x.numel())[: right.numel()].view_as(right)


MADE_UP: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "random": lambda right, x: torch.rand_like(right),
    "constant": lambda right, x: torch.full_like(right, 0.5),
    "the input": copied,
    "the mean of the input": lambda right, x: torch.zeros_like(right) + x.mean(),
    "sorted": lambda right, x: copied(right, x.sort(-1).values),
}


def made_up(exercise: Exercise, instead: Callable[[Tensor, Tensor], Tensor]) -> dict[str, Any]:
    """The solution, giving something else than it computes, in its form."""
    namespace = execute(exercise.solution)
    name = exercise.contract.name
    right = namespace[name]

    def other(result: Any, x: Tensor) -> Any:
        if isinstance(result, Tensor):
            return instead(result, x)
        return type(result)(instead(part, x) for part in result)

    def disguised(of: type) -> type:
        def forward(self: Any, x: Tensor, *more: Any) -> Any:
            return other(of.forward(self, x, *more), x)  # type: ignore[attr-defined]

        return type(of.__name__, (of,), {"forward": forward})

    if exercise.contract.entry is Entry.FUNCTION:
        namespace[name] = lambda x, *more: other(right(x, *more), x)
    elif exercise.contract.entry is Entry.CLASS:
        namespace[name] = disguised(right)
    else:

        def build(**arguments: Any) -> Any:
            module = right(**arguments)
            module.__class__ = disguised(type(module))
            return module

        namespace[name] = build
    return namespace


PAIRS = [(exercise.slug, what) for exercise in EXERCISES for what in MADE_UP]
"""a run that is not whole takes one of every other exercise, and each thing made up as often"""


@pytest.mark.sampled(("slug", "what"), PAIRS, PAIRS[:: 6 * len(MADE_UP) + 1])
def test_generated_vacuous_answers_earn_nothing(slug: str, what: str) -> None:
    exercise = BY_SLUG[slug]
    harness = Harness(make_subject(made_up(exercise, MADE_UP[what])), exercise.contract)
    plan = exercise.plan_cases()
    verdicts = list(
        check_in_order(
            plan, harness, lambda claim, cases: find_first_failure(claim, harness, cases)
        )
    )
    assert sum(award_points(exercise, verdicts, None)) == 0
