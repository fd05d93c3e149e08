"""Training runs: what was kept is recovered, and what is wrong in training alone is found."""

from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.grader.audit.matrix import load_answers, load_subject
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.families.training import (
    a_training_step_moves_every_weight,
    gradients_add_up_over_calls,
    gradients_go_only_where_they_are_required,
    the_gradients_in_training_are_right,
    the_returned_weights_are_trained_through,
    training_gives_the_equation_of_what_it_kept,
    what_was_trained_is_used,
)
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.harness.training_run import STEPS, run_training
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Violation
from tests.forms.bank import open_class
from tests.properties import modules
from tests.properties.binding.strangers import SEPARATE, make, must_bind

EXERCISE = BY_SLUG["causal_attention"]
TRAINING = (
    training_gives_the_equation_of_what_it_kept,
    the_gradients_in_training_are_right,
    gradients_add_up_over_calls,
    gradients_go_only_where_they_are_required,
    a_training_step_moves_every_weight,
    what_was_trained_is_used,
)


class CausalAttention(modules.CausalAttention):
    """Right; the tests below change what it does in training."""

    seen: list[Tensor]

    def drop(self, weights: Tensor) -> Tensor:
        kept = (torch.rand_like(weights) >= self.rate).to(weights) / (1 - self.rate)
        type(self).seen.append(kept)
        return weights * kept

    def finish(self, output: Tensor) -> Tensor:
        return output

    def forward(self, x: Tensor) -> Tensor:
        return self.finish(super().forward(x))


class Detached(CausalAttention):
    def drop(self, weights: Tensor) -> Tensor:
        return super().drop(weights.detach())


class StraightThrough(CausalAttention):
    def drop(self, weights: Tensor) -> Tensor:
        return weights + (super().drop(weights) - weights).detach()


class Halved(CausalAttention):
    def drop(self, weights: Tensor) -> Tensor:
        return super().drop(weights) / 2


class Clearing(CausalAttention):
    def finish(self, output: Tensor) -> Tensor:
        self.zero_grad()
        return output


class WithResidualDropout(CausalAttention):
    def finish(self, output: Tensor) -> Tensor:
        return torch.nn.functional.dropout(output, 0.5, self.training)


def context_of(made: type[CausalAttention]) -> LiveContext:
    made.seen = []
    harness = Harness(make_subject({"CausalAttention": made}), EXERCISE.contract)
    prop = the_gradients_in_training_are_right
    first, *_ = prop.select_cases(EXERCISE.contract, [Case(seed=3)])
    return harness.get_context(first)


def list_broken(made: type[CausalAttention]) -> set[Property]:
    context, broken = context_of(made), set()
    for prop in TRAINING:
        try:
            prop.check(context)
        except Violation:
            broken.add(prop)
    return broken


def test_what_was_kept_is_recovered_exactly() -> None:
    run = run_training(context_of(CausalAttention))
    calls = [call for call in run if call.step.training]
    assert len(calls) == len(CausalAttention.seen) == sum(step.training for step in STEPS)
    for call, kept in zip(calls, CausalAttention.seen, strict=True):
        visible = torch.ones(kept.shape[-2:]).tril().bool()
        assert call.known
        assert call.kept is not None
        assert torch.equal(call.kept[:, 0][..., visible], kept.double()[..., visible])


def test_right_training_breaks_nothing() -> None:
    assert not list_broken(CausalAttention)


@pytest.mark.parametrize("seed", [209, 668])
def test_what_cannot_be_recovered_of_small_weights_accuses_nobody(seed: int) -> None:
    """What dropout left of a query are weights of 1e-14: too small for the output to show them."""
    exercise = BY_SLUG["multi_head_attention"]
    [solution] = [a for a in load_answers(exercise) if a.name == "solution"]
    harness = Harness(load_subject(solution), exercise.contract)
    case = exercise.plan_cases()[gradients_go_only_where_they_are_required][-1]
    gradients_go_only_where_they_are_required.check(harness.get_context(replace(case, seed=seed)))


def test_weights_may_be_returned_after_dropout() -> None:
    init = f"{SEPARATE}\nself.drop = nn.Dropout(dropout)"
    source = make(takes="dim, heads, dropout", init=init, weights="w = self.drop(w)", result="o, w")
    contract = must_bind(source).contract
    assert contract.has(Capability.DROPOUT, Capability.WEIGHTS)
    exercise = Exercise("attention", "any", contract, Path(), cases=12)
    [case] = exercise.plan_cases(1)[the_returned_weights_are_trained_through]
    harness = Harness(open_class(source, "Own")[0], contract)
    the_returned_weights_are_trained_through.check(harness.get_context(case))


def test_dropout_of_the_output_leaves_evaluation_to_be_compared() -> None:
    run = run_training(context_of(WithResidualDropout))
    assert not any(call.known for call in run if call.step.training and len(call.given.x) > 1)
    assert all(call.known for call in run if not call.step.training)
    assert not list_broken(WithResidualDropout)


@pytest.mark.parametrize(
    ("made", "broken"),
    [
        (Detached, the_gradients_in_training_are_right),
        (StraightThrough, the_gradients_in_training_are_right),
        (Halved, training_gives_the_equation_of_what_it_kept),
        (Clearing, gradients_add_up_over_calls),
    ],
)
def test_what_is_wrong_in_training_is_found(made: type[CausalAttention], broken: Property) -> None:
    assert broken in list_broken(made)
