"""Histories: sequences of operations on a module, and the check that they change no answer.

Theory ------ Attention is a function of its weights and its input. So the answer of a module does
not depend on earlier events: calls of other lengths, gradients, a call that raised, modules of
other sizes, copies, other weights that were loaded and replaced again.

A history is a sequence of steps (`properties/harness/steps.py`), each a small frozen value that can
describe itself. After every step the module is probed: it is called with the case's own input, with
a single token, for gradients, or in training with seeded random numbers. Each answer is compared
with the answer of a freshly built module of the same submission, so that a wrong scale, for
example, does not also fail a property about histories.

The order of the steps is drawn from the case's seed: all submissions of a run get the same
histories. When a probe fails, shorter histories that end in the same probe are tried: single steps
before pairs, and the latest steps first. The student reads the first history that fails. If even a
freshly built module fails, the submission keeps something outside of its modules. Then no shorter
history can be trusted, and the student reads the whole history.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.properties.bounds.gradients import ExactGradients
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_transforms import shorten
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter
from headcheck.properties.harness.steps import (
    TRAINING_SEED,
    HistoryState,
    HistoryStep,
    attempt,
    build_fresh_module,
)
from headcheck.properties.subject import CallOptions
from headcheck.properties.violations.violation import Status, SubmissionFailed, Violation

MAX_SHORTER_HISTORIES = 60
"""the most shorter histories to try if a history fails"""
LARGE_FACTOR = 8
"""The factor of large tokens. Their scores, 64 times as large, reveal clamps and shifts."""
ProbeFailure = Violation | SubmissionFailed


@dataclass(frozen=True)
class Probe:
    """A query whose answer no history may change. Used as a step, it is one more call."""

    description: str
    observe: Callable[[LiveContext, ModuleAdapter], Mapping[str, Tensor]]
    compute_tolerances: Callable[[LiveContext], Mapping[str, Tolerance]]

    def observe_baseline(self, context: LiveContext) -> Mapping[str, Tensor]:
        """Return the answer of a freshly built module."""
        return self.observe(context, build_fresh_module(context))

    def check(self, context: LiveContext, adapter: ModuleAdapter) -> None:
        """Raise Violation unless the answer equals that of a freshly built module."""
        before = context.compute_once(self.observe_baseline)
        limits = context.derive(self.compute_tolerances)
        for name, got in self.observe(context, adapter).items():
            context.assert_unchanged(got, before[name], limits[name], name)

    def take(self, state: HistoryState) -> None:
        self.observe(state.context, state.adapter)

    def __str__(self) -> str:
        return self.description


def _observe_outputs(context: LiveContext, adapter: ModuleAdapter) -> dict[str, Tensor]:
    outputs = context.run_module(options=CallOptions(), adapter=adapter)
    return dict(zip(context.output_names, outputs, strict=True))


def _compute_output_tolerances(context: LiveContext) -> dict[str, Tolerance]:
    return dict(zip(context.output_names, context.expected.tolerances, strict=True))


def _probe_input(
    description: str, choose: Callable[[LiveContext], tuple[Tensor, Tensor | None]]
) -> Probe:
    """Return a probe that calls a module with another input."""
    name = f"output for {description}"

    def observe(context: LiveContext, adapter: ModuleAdapter) -> dict[str, Tensor]:
        x, mask = choose(context)
        outputs = context.run_module(x, mask=mask, options=CallOptions(), adapter=adapter)
        return {name: outputs[0]}

    def compute_tolerances(context: LiveContext) -> dict[str, Tolerance]:
        x, mask = choose(context)
        return {name: context.compute_expected(x, mask=mask).tolerances[0]}

    return Probe(f"a call with {description}", observe, compute_tolerances)


def _select_first_token(context: LiveContext) -> tuple[Tensor, Tensor | None]:
    """Return a token with a mask for it, or the whole input if only its length is taken."""
    if shorten(context.contract, context.case, 1) is context.case:
        return context.x, context.mask
    mask = None if context.mask is None else torch.ones_like(context.mask[..., :1, :1])
    return context.x[:, :1], mask


def _observe_training(context: LiveContext, adapter: ModuleAdapter) -> dict[str, Tensor]:
    options = CallOptions(training=True, seed=TRAINING_SEED)
    return {"output in training": context.run_module(options=options, adapter=adapter)[0]}


def _compute_training_tolerances(context: LiveContext) -> dict[str, Tolerance]:
    # The kept weights are multiplied by 1/(1 - rate), and so are their errors.
    factor = 1 / (1 - context.case.dropout)
    tolerance = context.expected.tolerances[0]
    return {"output in training": tolerance.map(lambda limit: factor * limit)}


def _observe_gradients(context: LiveContext, adapter: ModuleAdapter) -> dict[str, Tensor]:
    adapter.set(context.parameters)
    gradients = adapter.vjp(context.x, context.cotangent, context.mask)
    zero = torch.zeros(())
    return {
        f"gradient of {name}": (zero if grad is None else grad).double()
        for name, grad in gradients.items()
        if name in context.derive(_compute_exact_gradients).scales
    }


def _compute_exact_gradients(context: LiveContext) -> ExactGradients:
    return context.compute_exact_gradients(context.cotangent)


def _compute_gradient_tolerances(context: LiveContext) -> dict[str, Tolerance]:
    exact = context.derive(_compute_exact_gradients)
    return {f"gradient of {name}": exact.compute_tolerance(name) for name in exact.scales}


CALL_PROBE = Probe("a call", _observe_outputs, _compute_output_tolerances)
ONE_TOKEN_PROBE = _probe_input("one token", _select_first_token)
LARGE_TOKENS_PROBE = _probe_input(
    "large tokens", lambda context: (context.x * LARGE_FACTOR, context.mask)
)
TRAINING_PROBE = Probe("a call in training", _observe_training, _compute_training_tolerances)
GRADIENTS_PROBE = Probe("a backward pass", _observe_gradients, _compute_gradient_tolerances)


def shuffle_steps(
    context: LiveContext, steps: Sequence[HistoryStep], most: int | None = None
) -> list[HistoryStep]:
    """Return the steps, or `most` of them, in an order that depends only on the case's seed."""
    return random.Random(context.case.seed).sample(steps, len(steps) if most is None else most)


def assert_no_effect(
    context: LiveContext, steps: Sequence[HistoryStep], probes: Sequence[Probe]
) -> None:
    """Take these steps one after the other, and use the probes in turn after each step.

    Raises Violation or SubmissionFailed, with the shortest history found, if an answer differs from
    that of a freshly built module.
    """
    for probe in probes:  # before anything happens
        context.compute_once(probe.observe_baseline)
        context.derive(probe.compute_tolerances)
    state = HistoryState(context, build_fresh_module(context))
    past: list[HistoryStep] = []
    for step, probe in zip(steps, itertools.cycle(probes), strict=False):
        attempt(step, state)
        past.append(step)
        _assert_probed(context, state, past, probe)
    for probe in probes:  # what a step leaves behind may show in one of them alone
        _assert_probed(context, state, past, probe)


def _assert_probed(
    context: LiveContext, state: HistoryState, past: list[HistoryStep], probe: Probe
) -> None:
    """Probe a module, and add the probe to its past. Raises the errors of `assert_no_effect`."""
    failure = _find_failure(state, probe)
    if failure is not None:
        raise _find_shortest_failure(context, past, probe, failure)
    past.append(probe)


def assert_no_first_effect(
    context: LiveContext, steps: Sequence[HistoryStep], probes: Sequence[Probe]
) -> None:
    """Probe a new module for each of these steps, which is the first event of its history.

    Raises Violation or SubmissionFailed, with that step as the history, like `assert_no_effect`.
    """
    for probe in probes:
        context.compute_once(probe.observe_baseline)
        context.derive(probe.compute_tolerances)
    for step in steps:
        state = HistoryState(context, build_fresh_module(context))
        attempt(step, state)
        for number, probe in enumerate(probes):
            failure = _find_failure(state, probe)
            if failure is not None:
                raise _attach_history(failure, (step, *probes[:number]))


def _find_failure(state: HistoryState, probe: Probe) -> ProbeFailure | None:
    """Return the failure of a probe, or None if its answer is unchanged."""
    state.adapter.set(state.context.parameters)
    try:
        probe.check(state.context, state.adapter)
    except Violation as violation:
        return violation
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return failure
    return None


def _find_shortest_failure(
    context: LiveContext, past: Sequence[HistoryStep], probe: Probe, failure: ProbeFailure
) -> ProbeFailure:
    """Return the failure with the shortest history that is found to cause it."""
    if _run_history(context, (), probe) is None:
        for shorter in itertools.islice(_iter_shorter_histories(past), MAX_SHORTER_HISTORIES):
            again = _run_history(context, shorter, probe)
            if again is not None:
                return _attach_history(again, shorter)
    return _attach_history(failure, past)


def _iter_shorter_histories(past: Sequence[HistoryStep]) -> Iterator[tuple[HistoryStep, ...]]:
    """Yield single steps of a history and then pairs of steps, the latest first."""
    latest = past[::-1]
    yield from ((step,) for step in latest)
    yield from ((first, second) for second, first in itertools.combinations(latest, 2))


def _run_history(
    context: LiveContext, history: Sequence[HistoryStep], probe: Probe
) -> ProbeFailure | None:
    """Return the failure of a probe after this history, or None if its answer is unchanged."""
    state = HistoryState(context, build_fresh_module(context))
    for step in history:
        attempt(step, state)
    return _find_failure(state, probe)


def _attach_history(failure: ProbeFailure, history: Sequence[HistoryStep]) -> ProbeFailure:
    failure.after = "; ".join(map(str, history))
    return failure
