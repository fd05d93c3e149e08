"""A right answer is not accused in 16 bits where plain torch happens to make no error at all."""

from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_text import parse_case
from headcheck.properties.check import check_property
from headcheck.properties.families import precision
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property
from headcheck.properties.violations.violation import Status

EXERCISE = BY_SLUG["causal_attention"]
TINY = "batch=1 tokens=2 context_length=2 d_in=1 heads=1 head_dim=1 bias=true dtype={} seed=0"
HALF = (precision.bfloat16_is_as_exact_as_plain_torch, precision.float16_is_as_exact_as_plain_torch)


@pytest.mark.parametrize("prop", HALF, ids=lambda p: p.name)
def test_errors_are_compared_where_there_are_many_roundings(prop: Property) -> None:
    namespace: dict[str, Any] = {"__name__": "solution"}
    exec(compile(EXERCISE.solution, "solution.py", "exec"), namespace)
    harness = Harness(make_subject(namespace), EXERCISE.contract)
    [dtype] = prop.dtypes
    assert check_property(prop, harness, [parse_case(TINY.format(dtype))]).status is Status.PASSED


@pytest.mark.parametrize("prop", HALF, ids=lambda p: p.name)
@pytest.mark.sampled("exercise", BY_SLUG.values(), [*BY_SLUG.values()][::4], ids=lambda e: e.slug)
def test_every_fixed_case_is_one_where_they_are_compared(exercise: Any, prop: Property) -> None:
    for case in exercise.plan_cases().get(prop, ()):
        assert precision.has_compared_sizes(exercise.contract, case)


OVERFLOWING = (
    "batch=1 tokens=2 context_length=2 d_in=97 heads=1 head_dim=97 "
    "sharpness=8 content=outlier dtype=float16 seed=0"
)


def test_scores_beyond_float16_are_nobody_s_mistake() -> None:
    exercise = BY_SLUG["simplified_attention"]
    namespace: dict[str, Any] = {"__name__": "solution"}
    exec(compile(exercise.solution, "solution.py", "exec"), namespace)
    harness = Harness(make_subject(namespace), exercise.contract)
    prop = precision.float16_is_as_exact_as_plain_torch
    assert check_property(prop, harness, [parse_case(OVERFLOWING)]).status is Status.PASSED
