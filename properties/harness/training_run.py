"""A training run: call a module, differentiate it and update it for some steps, as a user would.

The output shows which weights dropout kept. A head is at least as wide as the sequence is long, and
W_o is invertible, so that the weights that a module used are the solution of a linear system.
Divided by the weights before dropout they are 0 or 1/(1 - rate); the nearer of the two is taken. If
other numbers are dropped as well, as GPT-2 drops elements of the output, some elements are exactly
zero. Then only the properties of dropout, which count, check dropout.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from headcheck.properties import comparison
from headcheck.properties.bounds.absolute_gradients import (
    Loss,
    bound_roles,
    compute_absolute_gradients,
    make_absolute_block,
)
from headcheck.properties.bounds.attention import K
from headcheck.properties.bounds.gradients import (
    ExactGradients,
    compute_block_growth,
    compute_gradients,
    compute_growth,
)
from headcheck.properties.bounds.head_norms import make_absolute_heads
from headcheck.properties.bounds.maps import sum_maps
from headcheck.properties.bounds.oracle import get_precisions, get_scale
from headcheck.properties.bounds.sinks import seat_sinks
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_tensors import draw_normal, make_tokens
from headcheck.properties.cases.case_transforms import shorten
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.harness.module_adapter import ModuleAdapter, NamedPassResult
from headcheck.properties.harness.steps import build_fresh_module
from headcheck.properties.subject import Pass
from headcheck.properties.terms.capability import Capability
from headcheck.properties.terms.case import Case
from headcheck.reference import (
    MultiHeadResult,
    Parameters,
    linear,
    merge_heads,
    multi_head_attention,
    split_heads,
    transformer_block,
)

LARGEST_WEIGHT, NEGLIGIBLE_WEIGHT = 1e6, 1e-9
RATE = 2.0**-6
"""the rate of gradient descent; a power of two adds no rounding"""
EVALUATION = Pass(inputs=0, training=False, grad="no_grad", input_learns=False)
STEPS = (
    EVALUATION,  # so that whatever is kept of the first weights is out of date later
    Pass(inputs=0, backward=(1,), clear=True),
    Pass(inputs=1, backward=(2,)),
    Pass(inputs=0, backward=(3,), rate=RATE, clear=True),  # adds to the last one's
    Pass(inputs=1, training=False, grad="inference", input_learns=False),
    Pass(inputs=3),
    Pass(inputs=0, backward=(5, 6), rate=RATE, clear=True),  # of two calls, the earlier one first
    Pass(inputs=0, weights_learn=False, backward=(7,), clear=True),
    Pass(inputs=1, input_learns=False, backward=(8,), clear=True),
    EVALUATION,
    Pass(inputs=0, training=False, backward=(10,), clear=True),
    Pass(inputs=0, training=False, weights_learn=False, backward=(11,)),
    Pass(inputs=2, backward=(12,), clear=True),
    Pass(inputs=1, training=False, input_learns=False, backward=(13,), clear=True),
    Pass(inputs=3, backward=(14, 14)),  # twice through the same graph
)
"""The passes of a run, in order. Their inputs have all tokens, fewer tokens, a single token, and
all tokens again.
"""
COPY_STEPS = (Pass(inputs=0, training=False, backward=(0,), rate=RATE, clear=True), EVALUATION)
"""the passes of a copy: a training step and a call"""


@dataclass(frozen=True, eq=False)
class TrainingInput:
    """One input of a training run, with its mask and the cotangent of its output."""

    x: Tensor
    mask: Tensor | None
    cotangent: Tensor


@dataclass(frozen=True, eq=False)
class TrainingCall:
    """One call of a training run: its options, its weights and its results."""

    context: LiveContext
    step: Pass
    given: TrainingInput
    parameters: Parameters
    kept: Tensor | None
    """the factor of each weight, 0 if it was dropped; None if nothing is dropped"""
    known: bool
    """whether `kept` could be recovered"""
    result: NamedPassResult

    @cached_property
    def exact_gradients(self) -> ExactGradients:
        """The exact gradients of the call, computed once for all passes that add them up."""
        context, given = self.context, self.given
        visible = context.may_attend(given.x.shape[-2], given.mask)
        case = replace(context.case, tokens=given.x.shape[-2])
        inputs = context.contract, case, given.x, self.parameters
        exact = compute_gradients(*inputs, visible, Loss(given.cotangent, kept=self.kept))
        if self.kept is None:
            return exact
        result = attend(context, given, self.parameters, None)
        counted = select_doubtful(context, result)
        if not bool(counted.any()):
            return exact
        doubtful = Loss(given.cotangent, kept=counted)
        lost = compute_absolute_gradients(*inputs, result, doubtful)
        lost.pop("b_o", None)  # its gradient is the same whatever was kept
        return replace(exact, uncertain=lost)


TrainingRun = tuple[TrainingCall, ...]


def run_training(context: LiveContext) -> TrainingRun:
    """Train a fresh module."""
    return train(context, build_fresh_module(context), STEPS)


def train(context: LiveContext, adapter: ModuleAdapter, steps: Sequence[Pass]) -> TrainingRun:
    """Run passes on a module that has the case's weights."""
    case, inputs = context.case, context.derive(make_inputs)
    results = adapter.run_series(
        [(each.x, each.mask) for each in inputs], [each.cotangent for each in inputs], steps
    )
    calls, parameters = list[TrainingCall](), context.parameters
    for step, result in zip(steps, results, strict=True):
        given = inputs[step.inputs]
        comparison.assert_shape(result.output, tuple(given.cotangent.shape))
        drops = step.training and bool(case.dropout)
        hides = drops and _hides_weights(context, result.output)
        known = is_usable(parameters) and not hides
        kept = recover_kept(context, given, parameters, result.output) if drops and known else None
        calls.append(TrainingCall(context, step, given, parameters, kept, known, result))
        parameters = result.parameters or parameters
    return tuple(calls)


def make_inputs(context: LiveContext) -> list[TrainingInput]:
    """Make the inputs of the case's sizes, of fewer tokens, of a single one, and other tokens."""
    case = context.case
    shorter = shorten(context.contract, case, case.tokens - 1)
    single = shorten(context.contract, replace(case, batch=1), 1)
    cases = case, shorter, single, replace(case, seed=case.seed + 1)
    return [make_input(context, each) for each in cases]


def make_input(context: LiveContext, case: Case) -> TrainingInput:
    """Make an input of the sizes of a case, in the context's contract."""
    cotangent = draw_normal(case, "cotangent", case.batch, case.tokens, case.d_out)
    mask = make_fitting_mask(context.contract, case)
    return TrainingInput(make_tokens(case, context.contract), mask, cotangent)


def is_usable(parameters: Parameters) -> bool:
    """Return whether the trained weights of a wrong answer are still usable numbers."""
    return all(bool((tensor.abs() < LARGEST_WEIGHT).all()) for _, tensor in parameters.items())


def _hides_weights(context: LiveContext, output: Tensor) -> bool:
    """Return whether dropout of numbers of the output hides which weights were dropped."""
    is_asked = context.contract.has(Capability.OUTPUT_DROPOUT)
    return is_asked or drops_elements(output, context.case)


def drops_elements(output: Tensor, case: Case) -> bool:
    """Return whether single elements of a head's output are dropped rather than all together."""
    zero = split_heads((output == 0).double(), case.heads).bool()
    return bool((zero.any(-1) & ~zero.all(-1)).any())


def attend(
    context: LiveContext, given: TrainingInput, parameters: Parameters, kept: Tensor | None
) -> MultiHeadResult:
    """Return the exact answer, with the weights that dropout kept."""
    visible = context.may_attend(given.x.shape[-2], given.mask)
    asked = context.contract, context.case
    scale, variant = get_scale(*asked), get_variant(*asked)
    heads = context.case.heads
    return multi_head_attention(given.x, parameters, heads, visible, scale, kept, variant=variant)


def recover_kept(
    context: LiveContext, given: TrainingInput, parameters: Parameters, output: Tensor
) -> Tensor:
    """Return the factor of each weight in an output: 0 or 1/(1 - rate)."""
    exact, keep = attend(context, given, parameters, None), 1 - context.case.dropout
    merged = torch.nan_to_num(output.double())
    if parameters.W_o is not None:
        shift = 0 if parameters.b_o is None else parameters.b_o
        merged = (merged - shift) @ torch.linalg.pinv(parameters.W_o).mT
    merged = merged if exact.gate is None else merged / exact.gate.sigmoid()
    used = split_heads(merged, context.case.heads) @ torch.linalg.pinv(exact.value)
    share = used * keep / exact.weights.clamp_min(1e-300)
    kept: Tensor = (share > 0.5).double() / keep
    return kept


def select_doubtful(context: LiveContext, exact: MultiHeadResult) -> Tensor:
    """Return the weights for which it is unknown whether dropout kept them, times 1/(1 - rate).

    Such a weight is so small that rounding hides whether it was kept.
    """
    return (exact.weights <= NEGLIGIBLE_WEIGHT).double() / (1 - context.case.dropout)


def compute_output(context: LiveContext, call: TrainingCall) -> tuple[Tensor, Tolerance]:
    """Return the exact output of a call, with the weights that dropout kept, and its tolerance."""
    if get_variant(context.contract, context.case).block is not None:
        return _compute_output_of_block(context, call)
    exact = attend(context, call.given, call.parameters, call.kept)
    return exact.output, bound_output(context, call, exact)


def _compute_output_of_block(context: LiveContext, call: TrainingCall) -> tuple[Tensor, Tolerance]:
    case, x, p = context.case, call.given.x, call.parameters
    visible = context.may_attend(x.shape[-2], call.given.mask)
    scale, variant = get_scale(context.contract, case), get_variant(context.contract, case)
    exact = transformer_block(x, p, case.heads, visible, scale, variant)
    sizes = make_absolute_block(x, p, exact, variant)
    query, key, _, _ = bound_roles(sizes.entered, p, exact.attention, variant)
    growth = compute_block_growth(case, exact.attention, variant, p)
    growth += 4 * float(scale * (query @ key.mT).amax())
    limits = (K * q.u * growth * sizes.output for q in get_precisions(case.dtype))
    return exact.output, Tolerance(*limits)


def bound_output(context: LiveContext, call: TrainingCall, exact: MultiHeadResult) -> Tolerance:
    """Return the tolerance of an output: some roundings of the sum of its terms."""
    p = call.parameters.map(torch.abs)
    variant = get_variant(context.contract, context.case)
    query, key, value, _ = bound_roles(call.given.x, call.parameters, exact, variant)
    weights = sum_maps(exact.softmaxes, p.lambdas)
    weights = weights if call.kept is None else weights * call.kept
    size = make_absolute_heads(weights, value, call.parameters, exact, variant).merged
    size = size if p.W_o is None else linear(size, p.W_o, p.b_o)
    # What the projections round is multiplied by queries and keys, however much these cancel.
    uncancelled = float(get_scale(context.contract, context.case) * (query @ key.mT).amax())
    seated = seat_sinks(exact, call.parameters.sinks)
    growth = compute_growth(context.case, seated, variant) + 4 * uncancelled
    lost = merge_heads(exact.weights * select_doubtful(context, exact) @ value)
    lost = lost if p.W_o is None else linear(lost, p.W_o, None)
    rounding = [K * q.u * growth * size for q in get_precisions(context.case.dtype)]
    return Tolerance(*(each if call.kept is None else each + lost for each in rounding))
