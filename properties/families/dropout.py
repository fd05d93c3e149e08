"""Dropout acts on the attention weights, independently on each, in training only.

The dropped weights are recovered like the weights themselves (`properties.harness.tomography`):
with all queries zero every visible weight is the same known number, values are unit vectors and W_o
is the identity, so each output coordinate shows one weight, dropped or scaled. Rates are then
estimated by counting samples. A count fails if, by Chernoff's bound n KL(k/n ‖ p), a correct module
would have it with probability below 10⁻¹⁰. A module is subject to fewer than ten such counts, so
a correct one fails with probability below 10⁻⁹. The share of dropped weights is counted over at
least 120,000 of them: a rate that is off by 0.02 is missed with probability below 10⁻¹⁵.

Dropout at other places shows in other ways. Of queries, keys or scores: the kept weights, if they
differ, are no longer one multiple of the undropped ones. Of values or of the input: a value
vanishes from all queries at once. Of the heads' outputs: single coordinates of a single token
vanish. The final output may also be dropped, as in GPT-2. To distinguish this from the heads'
outputs, W_o is set to ones, so that each element of the output is the sum of all of these: it is
complete, or zero. Without an output layer the two are the same.
"""

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from properties.case import Case, InputContent, MaskForm, MemoryLayout
from properties.cases.case_tensors import make_generator
from properties.cases.case_transforms import with_values
from properties.contract import Capability
from properties.counting import count_share
from properties.families.comparisons import assert_outputs_unchanged
from properties.families.contract import FORM
from properties.families.parameter_transforms import (
    make_identity_projection,
    replace_parameters,
    zero_parameters,
)
from properties.families.values import it_equals_the_equation
from properties.harness.case_context import CaseContext
from properties.harness.harness import LiveContext
from properties.harness.steps import build_fresh_module
from properties.peculiarity import (
    AXIS_OF_ONE,
    DROPOUT,
    SHORTER_THAN_CONTEXT,
    select_plainest,
)
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions
from properties.violation import Note, Violation, ViolationKind
from reference import Parameters, split_heads

family_property = PropertyFamily(PropertyGroup.DROPOUT, FORM)
C = Capability
SAMPLES = 120_000
SINGLE_TOKEN_SEQUENCES = 4_000
TOKENS = 16
DROPOUT_SEED = 1
"""The seed of the submission's random numbers, so that counts are the same in every run."""
SHORT = (SHORTER_THAN_CONTEXT, AXIS_OF_ONE)
"""what a sequence of a single token has"""
FALSE_POSITIVE_RATE = 1e-10
RATE_HINT = "dropout acts on the weights, after the softmax, and nowhere else"
VALUES_HINT = "is dropout applied to the values, or to the input?"
EXTRA_DROPOUT = Note(
    "extra_dropout",
    "besides the attention weights, dropout also acts on the output; the exercise does not ask "
    "for that",
)
UNLIKE_SEQUENCES = 64
"""The number of sequences whose unlike weights are compared."""
ONLY_WEIGHTS_DROPPED = "nothing but attention weights dropped"


def simplify_for_counting(case: Case) -> Case:
    """Return a case with as many tokens as a head has dimensions, and no other options.

    In float32, because only zeros are counted. The calls are made of thousands of sequences, so
    that a case with several says the same as one with a single one.
    """
    case = replace(case, tokens=TOKENS, context_length=TOKENS, d_in=TOKENS)
    case = replace(case, batch=min(case.batch, 2))
    case = replace(case, heads=2, head_dim=TOKENS, bias=False, dropout=0.3, sharpness=1)
    case = replace(case, content=InputContent.NORMAL, memory=MemoryLayout.CONTIGUOUS)
    return replace(case, mask_form=MaskForm.NONE, window=TOKENS, dtype="float32")


@dataclass(frozen=True, eq=False)
class DropoutObservation:
    """The visible attention weights of many training calls, relative to their undropped value."""

    ratio: Float[Tensor, "batch heads visible"]
    first_token_lost: Bool[Tensor, "batch heads"]
    """whether the first token contributed to no query"""
    vanished_rows: Bool[Tensor, "rows"]
    """whether all coordinates of a single token vanished"""
    has_partial_rows: bool
    """whether some coordinates of a single token vanished without the others"""

    @property
    def rate(self) -> float:
        """The share of weights that are zero."""
        return float((self.ratio == 0).double().mean())

    @cached_property
    def usual_ratio(self) -> float:
        """What most weights that are left count; NaN if there are none."""
        return float(self.ratio[self.ratio != 0].median())


def observe_dropout(context: LiveContext) -> DropoutObservation:
    """Call the module in training on enough sequences for the counts."""
    case = context.case
    parameters = make_revealing_parameters(context)
    visible = context.list_visible()
    per_sequence = int(visible.sum()) * case.heads
    one = make_unlike_tokens(case) * _draw_units(context)
    x = one.expand(-(-SAMPLES // per_sequence), -1, -1).contiguous()
    options = CallOptions(training=True, seed=DROPOUT_SEED)
    weights = split_heads(context.run_module(x, parameters, options=options)[0], case.heads)
    exact = context.compute_expected(one, parameters).exact.weights
    ratio = weights[..., : case.tokens] / exact.where(visible, 1.0)
    output = _run_on_single_values(context, parameters)
    zero = (split_heads(output, case.heads) == 0)[:, 0, 0]
    partial = zero[~zero.all(-1)]
    lost = (ratio[..., 0] == 0).all(-1)
    return DropoutObservation(ratio[..., visible], lost, zero.all(-1), bool(partial.any()))


def make_unlike_tokens(case: Case) -> Float[Tensor, "1 tokens d_in"]:
    """Make token j the j-th unit vector."""
    x = torch.zeros(1, case.tokens, case.d_in, dtype=torch.float64)
    x[0].fill_diagonal_(1)
    return x


def _run_on_single_values(
    context: LiveContext, parameters: Parameters
) -> Float[Tensor, "batch 1 d_out"]:
    """Return the outputs in training of tokens that see themselves alone, whose values are one.

    Such is a sequence of a single token. Where that is known to be too short for the submission,
    it is the first of more tokens, if later ones are hidden from it.
    """
    case = context.case
    is_too_short = not context.harness.unsupported.keys().isdisjoint(SHORT)
    tokens = case.tokens if is_too_short and context.contract.has(C.CAUSAL) else 1
    x = _draw_units(context).expand(SINGLE_TOKEN_SEQUENCES, tokens, case.d_in).contiguous()
    options = CallOptions(training=True, seed=DROPOUT_SEED)
    return context.run_module(x, parameters, options=options)[0][:, :1]


def make_revealing_parameters(context: CaseContext) -> Parameters:
    """Return zero queries, unit values, no output mixing: each output coordinate is one weight."""
    case = context.case
    unit = torch.eye(case.head_dim, case.d_in, dtype=torch.float64) / _draw_units(context)
    unit = unit if context.parameters.W_gate is None else 2 * unit  # a gate of zeros halves it
    zeros = zero_parameters(
        context, "W_q", "W_k", "W_gate", "b_q", "b_k", "b_v", "b_gate", "shift_q"
    )
    values = {"W_v": unit.repeat(case.kv_heads, 1), **make_identity_projection(context)}
    return replace_parameters(context, **zeros, **values)


def _draw_units(context: CaseContext) -> Float[Tensor, "d_in"]:
    """Draw the unit of each input dimension: a power of two of either sign.

    It depends on the case's seed, so that nobody knows these inputs before the run. The values
    cancel it without rounding, so that no count depends on it.
    """
    draw, width = make_generator(context.case, "x2"), (context.case.d_in,)
    exponents = torch.randint(-8, 9, width, generator=draw)
    signs = 1 - 2 * torch.randint(0, 2, width, generator=draw)
    return torch.ldexp(signs.double(), exponents)


def is_improbable(successes: int, samples: int, probability: float) -> bool:
    """Return whether a count is improbable at the false-positive rate: Chernoff, two-sided."""
    if not 0 < probability < 1:
        return successes != round(samples * probability)
    return bool(compute_log_chance(successes, samples, probability) < math.log(FALSE_POSITIVE_RATE))


def compute_log_chance(
    successes: Tensor | int, samples: Tensor | int, probability: float
) -> Tensor:
    """Bound the logarithm of the probability of counts as far off: Chernoff, two-sided."""
    counts, total = torch.as_tensor(successes).double(), torch.as_tensor(samples).double()
    share = counts / total.clamp_min(1)
    chances = torch.tensor([probability, 1 - probability]).double()
    shares = torch.stack([share, 1 - share], dim=-1)
    divergence = (torch.xlogy(shares, shares) - shares * chances.log()).sum(-1)
    return math.log(2) - total * divergence


def _assert_frequency(hits: Tensor, probability: float, expected: str, what: str) -> None:
    successes, samples = int(hits.sum()), hits.numel()
    if is_improbable(successes, samples, probability):
        got = f"{successes / samples:.4f} (of {samples} looked at)"
        raise Violation(ViolationKind.VALUE, f"{expected}: {probability:.4f}", got, what)


def estimate_second_keep_rate(context: CaseContext, observation: DropoutObservation) -> float:
    """Return the share that a second dropout, on single coordinates, keeps; 1 if there is none.

    It can only be estimated where the weights are dropped correctly: then all kept numbers have one
    factor, from which the rate follows.
    """
    rows = observation.vanished_rows
    if not observation.has_partial_rows:
        return 1.0
    share = 1 / (observation.usual_ratio * (1 - context.case.dropout))
    if not 0 < share < 1:
        return 1.0
    whole = _compute_whole_value_rate(context, share)
    return 1.0 if is_improbable(int(rows.sum()), rows.numel(), whole) else share


def _compute_whole_value_rate(context: CaseContext, share: float) -> float:
    """Return the probability that a whole value vanishes if this share of coordinates is kept."""
    rate = context.case.dropout
    return rate + (1 - rate) * (1 - share) ** context.case.head_dim


def _compute_effective_rate(
    context: CaseContext, observation: DropoutObservation
) -> tuple[float, float]:
    """Return the observed rate and factor, which include those of a second dropout."""
    keep = (1 - context.case.dropout) * estimate_second_keep_rate(context, observation)
    return 1 - keep, 1 / keep


@family_property(C.DROPOUT, on=simplify_for_counting, limit=1, hint=RATE_HINT, dtypes=("float64",))
def dropout_drops_the_stated_share(context: LiveContext) -> None:
    """In training, each attention weight is dropped with the probability `dropout`."""
    observation = context.compute_once(observe_dropout)
    rate, _ = _compute_effective_rate(context, observation)
    expected = "the share of dropped weights"
    _assert_frequency(observation.ratio == 0, rate, expected, "weights in training")


@family_property(
    C.DROPOUT,
    on=simplify_for_counting,
    after=(it_equals_the_equation,),
    limit=1,
    hint=RATE_HINT,
    dtypes=("float64",),
)
def dropout_scales_up_what_it_keeps(context: LiveContext) -> None:
    """In training, each kept weight is multiplied by 1/(1 - dropout)."""
    observation = context.compute_once(observe_dropout)
    _, factor = _compute_effective_rate(context, observation)
    kept = observation.ratio[observation.ratio != 0]
    if kept.numel() == 0:
        expected = f"kept weights times {factor:.4f}"
        raise Violation(ViolationKind.VALUE, expected, "none is kept", "weights")
    worst = float(kept[(kept - factor).abs().argmax()])
    if abs(worst - factor) > 1e-6:
        raise _make_factor_violation(context, factor, f"times {worst:.4f}")
    _assert_unlike_weights_scaled_alike(context, factor)


def _make_factor_violation(context: CaseContext, factor: float, got: str) -> Violation:
    expected = f"kept weights times 1/(1 - {context.case.dropout:g}) = {factor:.4f}"
    return Violation(ViolationKind.VALUE, expected, got, "weights in training")


def _assert_unlike_weights_scaled_alike(context: LiveContext, factor: float) -> None:
    """Raise Violation if dropout also changes kept weights, as dropout of scores does."""
    case = context.case
    drawn, x = context.parameters, make_unlike_tokens(case)
    revealing = make_revealing_parameters(context)
    parameters = replace(revealing, W_q=4 * drawn.W_q, W_k=4 * drawn.W_k)
    expected = context.compute_expected(x, parameters)
    options = CallOptions(training=True, seed=DROPOUT_SEED)
    repeated = x.expand(UNLIKE_SEQUENCES, -1, -1).contiguous()
    output = context.run_module(repeated, parameters, options=options)[0]
    exact, tolerance = factor * expected.outputs[0], factor * expected.tolerances[0].exact
    off = (output != 0) & ~((output - exact).abs() <= tolerance)
    if bool(off.any()):
        share = count_share(int(off.sum()), int((output != 0).sum()), "kept weight")
        got = f"{share} multiplied by something else"
        raise _make_factor_violation(context, factor, got)


@family_property(
    C.DROPOUT,
    on=simplify_for_counting,
    limit=1,
    hint="each weight is dropped or kept by a draw of its own",
    dtypes=("float64",),
)
def every_weight_is_dropped_for_itself(context: LiveContext) -> None:
    """Weights are dropped independently: of other sequences, heads, queries and keys."""
    observation = context.compute_once(observe_dropout)
    rate, _ = _compute_effective_rate(context, observation)
    zero = observation.ratio == 0
    together = rate**2 + (1 - rate) ** 2
    pairs = {"two sequences": (zero[:-1:2], zero[1::2])}
    last = zero[..., -2 * context.case.tokens + 1 :]  # the last two rows of the visible triangle
    one, other = last.split((context.case.tokens - 1, context.case.tokens), dim=-1)
    pairs["two queries"] = (one, other[..., :-1])
    pairs["two keys"] = (other[..., :-1:2], other[..., 1::2])
    if context.case.heads > 1:
        pairs["two heads"] = (zero[:, 0], zero[:, 1])
    for name, (one, other) in pairs.items():
        count = min(one.shape[0], other.shape[0])
        alike = one[:count] == other[:count]
        expected = f"pairs of weights of {name} both dropped or both kept, by chance"
        _assert_frequency(alike, together, expected, "weights in training")
    _assert_values_lost_by_chance(context, observation, rate)


def _assert_values_lost_by_chance(
    context: LiveContext, observation: DropoutObservation, rate: float
) -> None:
    """Raise Violation if all queries lose the first token at once, as they lose a dropped value."""
    x, parameters = make_unlike_tokens(context.case), make_revealing_parameters(context)
    output = context.run_module(x, parameters, options=CallOptions())[0]
    if not bool(split_heads(output, context.case.heads)[..., 0].all()):
        return  # a query gets nothing of it in evaluation, which is another fault
    hits, heads = int(observation.first_token_lost.sum()), observation.first_token_lost.numel()
    if is_improbable(hits, heads, rate**context.case.tokens):
        got = f"in {hits} of {heads} heads no query got anything of the first token"
        expected = ONLY_WEIGHTS_DROPPED
        where = "outputs in training"
        raise Violation(ViolationKind.VALUE, expected, got, where, hint=VALUES_HINT)


@family_property(
    C.DROPOUT,
    on=simplify_for_counting,
    limit=1,
    hint=RATE_HINT,
    dtypes=("float64",),
    essential=True,
)
def dropout_acts_on_the_attention_weights(context: LiveContext) -> None:
    """Dropping a weight removes a whole value from the average, not single coordinates of it."""
    observation = context.compute_once(observe_dropout)
    share = estimate_second_keep_rate(context, observation)
    whole = _compute_whole_value_rate(context, share)
    expected = "the share of values that vanish as a whole"
    _assert_frequency(observation.vanished_rows, whole, expected, "outputs in training")
    if share < 1:
        _assert_dropout_of_output(context)


def _assert_dropout_of_output(context: LiveContext) -> None:
    """Raise Violation unless the second dropout acts on the final output.

    Every element of the output is then the sum of all heads' results, which are complete or zero.
    """
    got = "single coordinates of what the heads return vanish, too"
    problem = Violation(ViolationKind.VALUE, ONLY_WEIGHTS_DROPPED, got, "outputs in training")
    if not context.contract.has(C.OUTPUT_PROJECTION):
        raise problem
    case = context.case
    ones = torch.ones(case.d_out, case.d_out, dtype=torch.float64)
    parameters = replace(make_revealing_parameters(context), W_o=ones)
    output = _run_on_single_values(context, parameters)
    _, factor = _compute_effective_rate(context, context.compute_once(observe_dropout))
    heads = output / (factor * case.head_dim)
    if not bool(((heads - heads.round()).abs() <= 1e-4).all()):
        raise problem
    context.harness.add_note(EXTRA_DROPOUT)


@family_property(
    C.DROPOUT,
    on=with_values(dropout=0.5),
    choose=select_plainest,
    limit=1,
    about=DROPOUT,
    hint="in evaluation nothing is dropped, and nothing scaled",
)
def evaluation_ignores_dropout(context: CaseContext) -> None:
    """In evaluation mode the output is that of attention without dropout."""
    without = context.with_case(replace(context.case, dropout=0.0))
    assert_outputs_unchanged(context, context.answer, without.run(), context.expected)


@family_property(
    C.DROPOUT,
    on=simplify_for_counting,
    limit=1,
    hint="each call in training draws anew, from torch's random numbers",
    dtypes=("float64",),
)
def every_call_drops_anew(context: LiveContext) -> None:
    """In training calls and layers drop different weights; after the same seed, the same."""
    x = _draw_units(context).expand(2, context.case.tokens, context.case.d_in).contiguous()
    parameters = make_revealing_parameters(context)

    def drop(seed: int, grad: str = "no_grad") -> Tensor:
        options = CallOptions(training=True, seed=seed, grad=grad)
        return context.run_module(x, parameters, options=options)[0]

    if bool((drop(1) == drop(2)).all()):
        expected = "other weights dropped"
        raise Violation(ViolationKind.VALUE, expected, "exactly the same", "a second call")
    evaluated = context.run_module(x, parameters, options=CallOptions())[0]
    if bool((drop(2, "inference") == evaluated).all()):
        got = "nothing in inference mode"
        raise Violation(ViolationKind.VALUE, "weights dropped in training", got, "a call")
    _assert_layers_differ(context, x, parameters)
    one, other = drop(1), drop(1)
    if not bool(((one == other) | one.isnan() & other.isnan()).all()):
        expected = "the same weights dropped after torch.manual_seed(1)"
        raise Violation(ViolationKind.VALUE, expected, "others", "a second call")


def _assert_layers_differ(context: LiveContext, x: Tensor, parameters: Parameters) -> None:
    """Raise Violation if two layers with the same weights, one after the other, drop the same."""
    one, other = build_fresh_module(context), build_fresh_module(context)
    one.set(parameters)
    other.set(parameters)
    options = CallOptions(training=True, seed=1)
    outputs = one.module.pair(other.module).forward(one.build_inputs(x, None), options).outputs
    if len(outputs) == 2 and torch.equal(*outputs):
        expected = "other weights dropped"
        raise Violation(ViolationKind.VALUE, expected, "exactly the same", "a second layer")
