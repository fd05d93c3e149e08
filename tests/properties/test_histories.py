"""Histories: what happened before is noticed, told in a few words, and costs a bounded search."""

from typing import Any

import pytest
import torch
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, rule, run_state_machine_as_test
from torch import Tensor, nn

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.families import history, list_properties
from headcheck.properties.harness import histories
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.harness.histories import (
    CALL_PROBE,
    GRADIENTS_PROBE,
    LARGE_TOKENS_PROBE,
    MAX_SHORTER_HISTORIES,
    ONE_TOKEN_PROBE,
    TRAINING_PROBE,
    assert_no_effect,
    shuffle_steps,
)
from headcheck.properties.harness.steps import (
    Build,
    Call,
    HistoryState,
    Rebuild,
    RefusedCall,
    attempt,
    build_fresh_module,
    fit_for_histories,
    make_calls,
    make_evaluations,
    make_other_modules,
    make_transfers,
)
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed, Violation
from tests.properties.modules import CausalAttention
from tests.submissions import load_source

EXERCISE = BY_SLUG["causal_attention"]
PROBES = (CALL_PROBE, ONE_TOKEN_PROBE, GRADIENTS_PROBE, LARGE_TOKENS_PROBE, TRAINING_PROBE)


def context_of(made: type[nn.Module], seed: int = 1) -> LiveContext:
    harness = Harness(make_subject({"CausalAttention": made}), EXERCISE.contract)
    case = fit_for_histories(Case(seed=seed))
    return harness.get_context(EXERCISE.contract.fit(case))


def all_steps(context: LiveContext) -> list[Any]:
    return [
        *make_calls(context),
        *make_other_modules(context),
        Rebuild(),
        *make_evaluations(context),
        *make_transfers(context),
    ]


def trouble_with(made: type[nn.Module], steps: list[Any], probe: Any = CALL_PROBE) -> Violation:
    with pytest.raises(Violation) as found:
        assert_no_effect(context_of(made), steps, (probe,))
    return found.value


# ------------------------------------------------------------------------- what is right stays


@pytest.mark.parametrize("seed", range(4))
def test_a_module_without_memory_answers_the_same_whatever_happened(seed: int) -> None:
    context = context_of(CausalAttention, seed)
    steps = shuffle_steps(context, all_steps(context))
    assert_no_effect(context, [*steps, *steps], PROBES)


def test_a_mask_that_is_kept_and_grown_is_no_memory() -> None:
    class Keeping(CausalAttention):
        kept: Tensor = torch.zeros(0, 0)

        def forward(self, x: Tensor) -> Tensor:
            if len(self.kept) < x.shape[1] or self.kept.device != x.device:
                self.kept = torch.ones(x.shape[1], x.shape[1], device=x.device).triu(1) > 0
            assert self.kept.dtype is torch.bool
            return super().forward(x)

    context = context_of(Keeping)
    assert_no_effect(context, all_steps(context), PROBES)


# ----------------------------------------------------------------------------- what is noticed


class ShorterKept(CausalAttention):
    """Without gradients, a longer call sees what a shorter one brought."""

    seen: Tensor | None = None

    def forward(self, x: Tensor) -> Tensor:
        if not torch.is_grad_enabled():
            if self.seen is not None and 1 < self.seen.shape[1] < x.shape[1]:
                x = torch.cat([self.seen, x[:, self.seen.shape[1] :]], dim=1)
            self.seen = x
        return super().forward(x)


def test_shortest_history_is_reported() -> None:
    context = context_of(ShorterKept)
    found = trouble_with(ShorterKept, make_calls(context))
    assert found.after == "a call with 3 tokens, batch 2"
    assert "after     a call with 3 tokens, batch 2" in str(found)


def test_two_step_history_is_reported() -> None:
    class Both(CausalAttention):
        events: frozenset[object] = frozenset()

        def forward(self, x: Tensor) -> Tensor:
            self.events = self.events | {x.shape[1]}
            return super().forward(x) * (2 if self.events >= {1, 3} else 1)

    steps: list[Any] = [Call(1, 2), Call(2, 2), Call(3, 2), Call(4, 2)]
    found = trouble_with(Both, steps)
    assert found.after == "a call with 1 token, batch 2; a call with 3 tokens, batch 2"


def test_state_outside_modules_is_reported_whole() -> None:
    seen: set[int] = set()

    class Outside(CausalAttention):
        def forward(self, x: Tensor) -> Tensor:
            seen.add(x.shape[1])
            return super().forward(x) * (2 if seen >= {2, 3} else 1)

    found = trouble_with(Outside, [Call(2, 2), Call(1, 1), Call(3, 2)])
    assert found.after.split("; ")[0] == "a call with 2 tokens, batch 2"
    assert found.after.split("; ")[-1] == "a call with 3 tokens, batch 2"


def test_other_module_is_described_by_its_arguments() -> None:
    class Latest(CausalAttention):
        width = 1

        def __init__(self, d_in: int, d_out: int, *rest: Any, **more: Any) -> None:
            super().__init__(d_in, d_out, *rest, **more)
            Latest.width = d_out

        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * Latest.width

    context = context_of(Latest)
    found = trouble_with(Latest, make_other_modules(context))
    assert found.after == "another module, with d_out=4 and other weights, is built and called"


def test_exception_after_a_history_names_it() -> None:
    class Broken(CausalAttention):
        broken = False

        def forward(self, x: Tensor) -> Tensor:
            if self.broken:
                raise RuntimeError("still broken")
            self.broken = True
            output = super().forward(x)
            self.broken = False
            return output

    with pytest.raises(SubmissionFailed) as found:
        assert_no_effect(context_of(Broken), [Call(2, 2), RefusedCall()], (CALL_PROBE,))
    assert "still broken" in found.value.message
    assert found.value.after == "a call with tokens that are too wide, which raises"


@pytest.mark.parametrize("claim", list_properties(history), ids=lambda claim: claim.name)
def test_stateless_module_satisfies_the_property(claim: Any) -> None:
    """A claim that does not hold raises Violation."""
    if claim.applies_to(EXERCISE.contract):
        claim.check(context_of(CausalAttention))


# -------------------------------------------------------------------------------- how it is done


def test_the_order_depends_on_the_seed_alone() -> None:
    one, again, other = (context_of(CausalAttention, seed) for seed in (1, 1, 2))
    orders = [list(map(str, shuffle_steps(t, all_steps(t)))) for t in (one, again, other)]
    assert orders[0] == orders[1]
    assert orders[0] != orders[2]
    assert sorted(orders[0]) == sorted(orders[2])
    assert len(shuffle_steps(one, all_steps(one), 5)) == 5


def test_the_search_for_a_shorter_history_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    tried = []
    after = histories._run_history

    def counting(context: LiveContext, history: Any, probe: Any) -> Any:
        tried.append(history)
        return after(context, history, probe)

    monkeypatch.setattr(histories, "_run_history", counting)

    class Tired(CausalAttention):
        calls = 0

        def forward(self, x: Tensor) -> Tensor:
            self.calls += 1
            return super().forward(x) * (2 if self.calls > 30 else 1)

    found = trouble_with(Tired, [Call(2, 2)] * 40)
    assert len(found.after.split("; ")) > 20
    assert len(tried) == MAX_SHORTER_HISTORIES + 1


def test_a_call_that_takes_too_long_ends_a_history() -> None:
    context = context_of(CausalAttention)
    scene = HistoryState(context, build_fresh_module(context))

    class Slow:
        def take(self, scene: HistoryState) -> None:
            raise SubmissionFailed(Status.TIMED_OUT, "it took too long")

    with pytest.raises(SubmissionFailed, match="too long"):
        attempt(Slow(), scene)


def test_others_differ_in_every_argument() -> None:
    contract = BY_SLUG["multi_head_attention"].contract
    harness = load_source(BY_SLUG["multi_head_attention"].solution, contract)
    context = harness.get_context(contract.fit(fit_for_histories(Case(seed=1))))
    told = " ".join(str(step) for step in make_other_modules(context))
    for argument in contract.arguments:
        assert f"{argument.name}=" in told
    assert "with the same arguments" in told
    assert all(isinstance(step, Build) for step in make_other_modules(context))


# --------------------------------------------------------- the same as a state machine, searched


def machine(made: type[nn.Module]) -> type[RuleBasedStateMachine]:
    """Steps and probes in whatever order Hypothesis likes."""

    class Histories(RuleBasedStateMachine):
        @initialize()
        def build(self) -> None:
            self.context = context_of(made)
            for probe in PROBES:
                self.context.compute_once(probe.observe_baseline)
            self.state = HistoryState(self.context, build_fresh_module(self.context))
            self.steps = all_steps(self.context)

        @rule(number=st.integers(0, 63))
        def step(self, number: int) -> None:
            attempt(self.steps[number % len(self.steps)], self.state)

        @rule(probe=st.sampled_from(PROBES))
        def probe(self, probe: Any) -> None:
            self.state.adapter.set(self.context.parameters)
            probe.check(self.context, self.state.adapter)

    return Histories


def search(made: type[nn.Module], examples: int) -> None:
    run_state_machine_as_test(
        machine(made),
        settings=settings(
            max_examples=examples,
            stateful_step_count=12,
            derandomize=True,
            database=None,
            deadline=None,
            phases=(Phase.generate,),
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_search_finds_no_violating_history_for_right_modules() -> None:
    """A history that breaks a claim raises Violation."""
    search(CausalAttention, examples=10)


def test_a_search_finds_what_the_fixed_histories_find() -> None:
    with pytest.raises(Violation):
        search(ShorterKept, examples=200)
