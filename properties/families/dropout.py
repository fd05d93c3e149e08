"""Dropout acts on the attention weights, on each for itself, in training only.

The dropped weights are recovered like the weights themselves (`properties.harness.tomography`):
with all queries zero every visible weight is the same known number, values are unit vectors and W_o
is the identity, so each output coordinate shows one weight, dropped or scaled. Rates are then
counts of coin tosses. A count is called wrong when Chernoff's bound n KL(k/n ‖ p) says that a
correct module would give it with probability below 10⁻¹⁰; a module faces fewer than ten such
counts, so a right one is accused with probability below 10⁻⁹. The share of dropped weights is
counted over at least 120,000 of them: a rate that is off by 0.02 is missed with probability below
10⁻¹⁵.

What else is dropped, besides, shows in other ways. Of queries, keys or scores: what is kept of
unlike weights is no longer one multiple of them. Of values or of the input: a value vanishes from
all queries at once. Of what the heads return: single coordinates of a single token vanish. The
final output may lose some, too, as in GPT-2; to tell that from the heads' results, each element of
the output then adds up all of those: it is whole, or nothing. Without an output layer the two are
the same thing.
"""

import math
from dataclasses import dataclass, replace

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from properties.case import Case, InputContent, MaskForm, MemoryLayout
from properties.cases.case_tensors import make_generator
from properties.cases.case_transforms import with_values
from properties.contract import Capability
from properties.families.contract import FORM
from properties.families.values import it_equals_the_equation
from properties.harness.case_context import CaseContext
from properties.harness.harness import LiveContext
from properties.property import PropertyFamily, PropertyGroup
from properties.subject import CallOptions
from properties.violation import Note, Violation, ViolationKind
from reference import Parameters

family_property = PropertyFamily(PropertyGroup.DROPOUT, FORM)
C = Capability
TOSSES = 120_000
SINGLE_TOKEN_SEQUENCES = 4_000
TOKENS = 16
DROPOUT_SEED = 1
"""Where the submission's random numbers begin: a count is no other in another run."""
FALSE_POSITIVE_RATE = 1e-10
RATE_HINT = "nn.Dropout(dropout) on the attention weights, after the softmax, and nowhere else"
VALUES_HINT = "is dropout applied to the values, or to the input, as well as to the weights?"
EXTRA_DROPOUT = Note(
    "extra_dropout",
    "besides the attention weights, dropout also acts on the output; the exercise does not ask "
    "for that",
)
UNLIKE_SEQUENCES = 64
"""so many show what becomes of unlike weights"""
ONLY_WEIGHTS_DROPPED = "nothing but attention weights dropped"


def simplify_for_counting(case: Case) -> Case:
    """Tokens that fit into a head side by side, and nothing else of interest.

    In float32: what is counted is whether a weight is zero.
    """
    return replace(
        case,
        batch=1,
        tokens=TOKENS,
        context_length=TOKENS,
        d_in=TOKENS,
        heads=2,
        head_dim=TOKENS,
        bias=False,
        dropout=0.3,
        sharpness=1,
        content=InputContent.NORMAL,
        memory=MemoryLayout.CONTIGUOUS,
        mask_form=MaskForm.NONE,
        dtype="float32",
    )


@dataclass(frozen=True, eq=False)
class DropoutObservation:
    """The visible attention weights of many training calls, relative to their undropped value."""

    ratio: Float[Tensor, "batch heads visible"]
    first_token_lost: Bool[
        Tensor, "batch heads"
    ]  # whether no query got anything of the first token
    vanished_rows: Bool[Tensor, "rows"]  # single tokens of which every coordinate vanished
    has_partial_rows: bool  # some coordinates of a token vanish without the others

    @property
    def rate(self) -> float:
        """The share that is zero."""
        return float((self.ratio == 0).double().mean())


def observe_dropout(context: LiveContext) -> DropoutObservation:
    """Run it in training mode on enough sequences to count by."""
    case = context.case
    parameters = _make_revealing_parameters(context)
    visible = torch.ones(case.tokens, case.tokens).tril().bool()
    per_sequence = int(visible.sum()) * case.heads
    one = _make_unlike_tokens(case) * _draw_units(context)
    x = one.expand(-(-TOSSES // per_sequence), -1, -1).contiguous()
    options = CallOptions(training=True, seed=DROPOUT_SEED)
    weights = _split_by_head(context.run_module(x, parameters, options=options)[0], case)[
        ..., : case.tokens
    ]
    ratio = weights * torch.arange(1, case.tokens + 1)[:, None]
    single = _split_by_head(
        context.run_module(_make_single_tokens(context), parameters, options=options)[0], case
    )
    zero = (single == 0)[:, 0, 0]
    survivors = zero[~zero.all(-1)]
    nothing = (ratio[..., 0] == 0).all(-1)
    return DropoutObservation(ratio[..., visible], nothing, zero.all(-1), bool(survivors.any()))


def _make_unlike_tokens(case: Case) -> Float[Tensor, "1 tokens d_in"]:
    """Token j is the unit vector number j."""
    x = torch.zeros(1, case.tokens, case.d_in, dtype=torch.float64)
    x[0].fill_diagonal_(1)
    return x


def _make_single_tokens(context: CaseContext) -> Float[Tensor, "batch 1 d_in"]:
    """Sequences of a single token, all of whose values are one."""
    return _draw_units(context).expand(SINGLE_TOKEN_SEQUENCES, 1, context.case.d_in).contiguous()


def _split_by_head(output: Tensor, case: Case) -> Float[Tensor, "batch heads tokens head_dim"]:
    heads: Tensor = output.unflatten(-1, (case.heads, case.head_dim))
    return heads.transpose(1, 2)


def _make_revealing_parameters(context: CaseContext) -> Parameters:
    """No queries, unit values, no output mixing: each output coordinate is one weight."""
    case = context.case
    zero = torch.zeros(case.d_out, case.d_in, dtype=torch.float64)
    unit = torch.eye(case.head_dim, case.d_in, dtype=torch.float64) / _draw_units(context)
    values = unit.repeat(case.heads, 1)
    nothing = torch.zeros(case.d_out, dtype=torch.float64)
    drawn = dict(context.parameters.items())
    return Parameters(
        W_q=zero,
        W_k=zero,
        W_v=values,
        b_q=nothing if "b_q" in drawn else None,
        b_k=nothing if "b_k" in drawn else None,
        b_v=nothing if "b_v" in drawn else None,
        W_o=torch.eye(case.d_out, dtype=torch.float64) if "W_o" in drawn else None,
        b_o=nothing if "b_o" in drawn else None,
    )


def _draw_units(context: CaseContext) -> Float[Tensor, "d_in"]:
    """The unit in which each input dimension is measured: a power of two of either sign.

    Drawn from the case's seed, so that nobody knows these inputs before the run. The values undo
    it without rounding, so that what is counted does not depend on it.
    """
    draw, width = make_generator(context.case, "x2"), (context.case.d_in,)
    exponents = torch.randint(-8, 9, width, generator=draw)
    signs = 1 - 2 * torch.randint(0, 2, width, generator=draw)
    return torch.ldexp(signs.double(), exponents)


def is_improbable(successes: int, tosses: int, probability: float) -> bool:
    """Whether a count is too far from its expectation to be chance: Chernoff, two-sided."""
    if not 0 < probability < 1:
        return successes != round(tosses * probability)
    share = successes / tosses
    divergence = sum(
        a * math.log(a / b)
        for a, b in ((share, probability), (1 - share, 1 - probability))
        if a > 0
    )
    return 2 * math.exp(-tosses * divergence) < FALSE_POSITIVE_RATE


def _assert_frequency(hits: Tensor, probability: float, expected: str, what: str) -> None:
    successes, tosses = int(hits.sum()), hits.numel()
    if is_improbable(successes, tosses, probability):
        got = f"{successes / tosses:.4f} (of {tosses} looked at)"
        raise Violation(ViolationKind.VALUE, f"{expected}: {probability:.4f}", got, what)


def _estimate_second_keep_rate(context: CaseContext, observation: DropoutObservation) -> float:
    """The share that a second dropout, on single coordinates, keeps; 1 where none is seen.

    It can only be told where the weights are dropped as they should be. Then all that is kept is
    multiplied by one number, which tells the rate.
    """
    vanished = int(observation.vanished_rows.sum())
    kept = observation.ratio[observation.ratio != 0]
    if not observation.has_partial_rows or not kept.numel():
        return 1.0
    share = 1 / (float(kept.median()) * (1 - context.case.dropout))
    if not 0 < share < 1 or is_improbable(
        vanished, observation.vanished_rows.numel(), _compute_whole_value_rate(context, share)
    ):
        return 1.0
    return share


def _compute_whole_value_rate(context: CaseContext, share: float) -> float:
    """How likely a value vanishes as a whole, if so many of its coordinates are kept."""
    rate = context.case.dropout
    return rate + (1 - rate) * (1 - share) ** context.case.head_dim


def _compute_effective_rate(
    context: CaseContext, observation: DropoutObservation
) -> tuple[float, float]:
    """The rate and the factor of what is seen: a second dropout adds its own."""
    keep = (1 - context.case.dropout) * _estimate_second_keep_rate(context, observation)
    return 1 - keep, 1 / keep


@family_property(C.DROPOUT, on=simplify_for_counting, limit=1, hint=RATE_HINT, dtypes=("float64",))
def dropout_drops_the_stated_share(context: LiveContext) -> None:
    """In training, each attention weight is dropped with the probability `dropout`."""
    observation = context.compute_once(observe_dropout)
    rate, _ = _compute_effective_rate(context, observation)
    _assert_frequency(
        observation.ratio == 0, rate, "the share of dropped weights", "weights in training"
    )


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
        raise Violation(
            ViolationKind.VALUE, f"kept weights times {factor:.4f}", "none is kept", "weights"
        )
    worst = float(kept[(kept - factor).abs().argmax()])
    if abs(worst - factor) > 1e-6:
        raise _make_factor_violation(context, factor, f"times {worst:.4f}")
    _assert_unlike_weights_scaled_alike(context, factor)


def _make_factor_violation(context: CaseContext, factor: float, got: str) -> Violation:
    expected = f"kept weights times 1/(1 - {context.case.dropout:g}) = {factor:.4f}"
    return Violation(ViolationKind.VALUE, expected, got, "weights in training")


def _assert_unlike_weights_scaled_alike(context: LiveContext, factor: float) -> None:
    """Raises Violation where dropping changes weights that it keeps, as by way of their scores."""
    case = context.case
    revealing = dict(_make_revealing_parameters(context).items())
    drawn = {name: 4 * getattr(context.parameters, name) for name in ("W_q", "W_k")}
    parameters = Parameters(**{**revealing, **drawn})
    x = _make_unlike_tokens(case)
    expected = context.compute_expected(x, parameters)
    options = CallOptions(training=True, seed=DROPOUT_SEED)
    shown = context.run_module(
        x.expand(UNLIKE_SEQUENCES, -1, -1).contiguous(), parameters, options=options
    )[0]
    exact, allowed = factor * expected.outputs[0], factor * expected.tolerances[0].exact
    off = (shown != 0) & ~((shown - exact).abs() <= allowed)
    if bool(off.any()):
        got = f"{int(off.sum())} of {int((shown != 0).sum())} are other numbers"
        raise _make_factor_violation(context, factor, got)


@family_property(
    C.DROPOUT,
    on=simplify_for_counting,
    limit=1,
    hint="draw one mask of the shape of the weights: (batch, heads, tokens, tokens)",
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
    """Raises Violation where the first token is lost to all queries at once, as a dropped value is.

    Unless some query gets nothing of it in evaluation, which is another fault.
    """
    shown = context.run_module(
        _make_unlike_tokens(context.case),
        _make_revealing_parameters(context),
        options=CallOptions(),
    )[0]
    if not bool(_split_by_head(shown, context.case)[..., 0].all()):
        return
    hits = int(observation.first_token_lost.sum())
    if is_improbable(hits, observation.first_token_lost.numel(), rate**context.case.tokens):
        got = (
            f"in {hits} of {observation.first_token_lost.numel()} heads no query got anything "
            f"of the first token"
        )
        raise Violation(
            ViolationKind.VALUE, ONLY_WEIGHTS_DROPPED, got, "training", hint=VALUES_HINT
        )


@family_property(C.DROPOUT, on=simplify_for_counting, limit=1, hint=RATE_HINT, dtypes=("float64",))
def dropout_acts_on_the_attention_weights(context: LiveContext) -> None:
    """Dropping a weight removes a whole value from the average, not single coordinates of it."""
    observation = context.compute_once(observe_dropout)
    share = _estimate_second_keep_rate(context, observation)
    whole = _compute_whole_value_rate(context, share)
    _assert_frequency(
        observation.vanished_rows, whole, "the share of values that vanish as a whole", "training"
    )
    if share < 1:
        _assert_dropout_of_output(context)


def _assert_dropout_of_output(context: LiveContext) -> None:
    """Raises Violation unless what vanishes besides the weights is of the final output.

    Every element of the output adds up the results of all heads, and these are whole or nothing.
    """
    got = "single coordinates of what the heads return vanish, too"
    problem = Violation(ViolationKind.VALUE, ONLY_WEIGHTS_DROPPED, got, "training")
    if not context.contract.has(C.OUTPUT_PROJECTION):
        raise problem
    case = context.case
    everything = {"W_o": torch.ones(case.d_out, case.d_out, dtype=torch.float64)}
    parameters = Parameters(**{**dict(_make_revealing_parameters(context).items()), **everything})
    options = CallOptions(training=True, seed=DROPOUT_SEED)
    output = context.run_module(_make_single_tokens(context), parameters, options=options)[0]
    _, factor = _compute_effective_rate(context, context.compute_once(observe_dropout))
    heads = output / (factor * case.head_dim)
    if not bool(((heads - heads.round()).abs() <= 1e-4).all()):
        raise problem
    context.harness.add_note(EXTRA_DROPOUT)


@family_property(
    C.DROPOUT, on=with_values(dropout=0.5), limit=1, hint="F.dropout needs training=..."
)
def evaluation_ignores_dropout(context: CaseContext) -> None:
    """In evaluation mode the output is that of attention without dropout."""
    without = context.with_case(replace(context.case, dropout=0.0))
    context.assert_answer_unchanged(without.run())


@family_property(C.MODULE, on=with_values(dropout=0.0), limit=1, hint=RATE_HINT)
def no_dropout_means_no_difference(context: LiveContext) -> None:
    """Without dropout, training gives what evaluation gives."""
    context.assert_answer_unchanged(context.run_module(options=CallOptions(training=True, seed=1)))


@family_property(
    C.DROPOUT,
    on=simplify_for_counting,
    limit=1,
    hint="draw anew in every call",
    dtypes=("float64",),
)
def every_call_drops_anew(context: LiveContext) -> None:
    """In training two calls drop different weights; after the same seed they drop the same."""
    x = _draw_units(context).expand(2, context.case.tokens, context.case.d_in).contiguous()
    parameters = _make_revealing_parameters(context)

    def drop(seed: int) -> Tensor:
        return context.run_module(x, parameters, options=CallOptions(training=True, seed=seed))[0]

    if bool((drop(1) == drop(2)).all()):
        raise Violation(
            ViolationKind.VALUE, "other weights dropped", "exactly the same", "a second call"
        )
    one, other = drop(1), drop(1)
    if not bool(((one == other) | one.isnan() & other.isnan()).all()):
        expected = "the same weights dropped after torch.manual_seed(1)"
        raise Violation(ViolationKind.VALUE, expected, "others", "a second call")


ALL = (
    dropout_drops_the_stated_share,
    dropout_scales_up_what_it_keeps,
    every_weight_is_dropped_for_itself,
    dropout_acts_on_the_attention_weights,
    evaluation_ignores_dropout,
    no_dropout_means_no_difference,
    every_call_drops_anew,
)
