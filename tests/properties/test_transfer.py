"""A function that moves weights is told whose numbers arrived where."""

import runpy
from collections.abc import Callable

import pytest
from torch import nn

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import check_property
from headcheck.properties.families.transfer import (
    afterwards_the_two_modules_are_independent,
    every_weight_arrives,
)
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue.transfers import TRANSFERS
from headcheck.properties.property import Property, Verdict
from headcheck.properties.violations.violation import Status

EXERCISE = BY_SLUG["weight_transfer"]
NAMES = ("W_query", "W_key", "W_value")
Transfer = Callable[[nn.Module, nn.Module], None]


def copy(source: nn.Module, target: nn.Module, sources: tuple[str, ...] = NAMES) -> None:
    for name, other in zip(NAMES, sources, strict=True):
        getattr(target, name).data = getattr(source, other).weight.data.T.clone()


def negate_queries_and_keys(source: nn.Module, target: nn.Module) -> None:
    copy(source, target)
    for name in NAMES[:2]:
        getattr(target, name).data *= -1


def go_backwards(source: nn.Module, target: nn.Module) -> None:
    for name in NAMES:
        getattr(source, name).weight.data = getattr(target, name).data.T.clone()


def share(source: nn.Module, target: nn.Module) -> None:
    for name in NAMES:
        getattr(target, name).data = getattr(source, name).weight.data.T


def judge(prop: Property, transfer: Transfer) -> Verdict:
    solution = runpy.run_path(str(EXERCISE.folder / "solution.py"))
    namespace = {**solution, "transfer_weights": transfer}
    harness = Harness(make_subject(namespace), EXERCISE.contract)
    return check_property(prop, harness, EXERCISE.plan_cases()[prop])


def name_mistake(verdict: Verdict) -> str:
    return next((each.mistake.name for each in TRANSFERS if each.is_shown_by(verdict)), "")


@pytest.mark.parametrize("transfer", [copy, negate_queries_and_keys])
def test_what_computes_the_same_is_accepted(transfer: Transfer) -> None:
    """Other numbers that give the same function are as good as those of the source."""
    assert judge(every_weight_arrives, transfer).status is Status.PASSED


@pytest.mark.parametrize(
    ("transfer", "got", "name"),
    [
        (lambda v2, v1: None, "no number has arrived", "nothing_transferred"),
        (
            lambda v2, v1: copy(v2, v1, ("W_query", "W_query", "W_value")),
            "those of v2's `W_query.weight`",
            "weight_of_another_layer",
        ),
        (
            lambda v2, v1: setattr(v1.W_query, "data", v2.W_query.weight.data.T.clone()),
            "those that it had before the call",
            "weight_not_transferred",
        ),
        (lambda v2, v1: copy(v1, v1), "", ""),
    ],
    ids=["nothing", "pasted", "one", "crash"],
)
def test_whose_numbers_arrived_is_said(transfer: Transfer, got: str, name: str) -> None:
    verdict = judge(every_weight_arrives, transfer)
    assert verdict.status is not Status.PASSED
    assert got in verdict.message
    assert name_mistake(verdict) == name


@pytest.mark.parametrize(
    ("transfer", "name"), [(go_backwards, "transferred_backwards"), (share, "memory_shared")]
)
def test_what_happens_to_the_source_is_said(transfer: Transfer, name: str) -> None:
    verdict = judge(afterwards_the_two_modules_are_independent, transfer)
    assert name_mistake(verdict) == name
