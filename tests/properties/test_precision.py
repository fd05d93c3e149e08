"""A right answer is not accused in 16 bits where plain torch happens to make no error at all."""

from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.cases.case_text import parse_case
from headcheck.properties.check import check_property
from headcheck.properties.families import precision
from headcheck.properties.property import Property
from headcheck.properties.violations.violation import Status
from tests.submissions import load_source

EXERCISE = BY_SLUG["causal_attention"]
TINY = "batch=1 tokens=2 context_length=2 d_in=1 heads=1 head_dim=1 bias=true dtype={} seed=0"
HALF = (precision.bfloat16_is_as_exact_as_plain_torch, precision.float16_is_as_exact_as_plain_torch)


@pytest.mark.parametrize("prop", HALF, ids=lambda p: p.name)
def test_errors_are_compared_where_there_are_many_roundings(prop: Property) -> None:
    harness = load_source(EXERCISE.solution, EXERCISE.contract)
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
    harness = load_source(exercise.solution, exercise.contract)
    prop = precision.float16_is_as_exact_as_plain_torch
    assert check_property(prop, harness, [parse_case(OVERFLOWING)]).status is Status.PASSED
