"""Recover attention weights in training: which are dropped, and the values of the others.

The dropped weights are recovered like the weights themselves (`properties.harness.tomography`):
with all queries zero every visible weight is the same known number, values are one-hot and W_o is
the identity, so each output coordinate shows one weight, dropped or scaled.

This depends on the rest of the module. A mistake elsewhere may put other numbers into a coordinate,
or leave no weight there to drop, and then a count says nothing about dropout. So the same inputs
are run in evaluation mode first (`reveal_weights`), and only weights that are visible then are
counted.
"""

from dataclasses import dataclass, replace
from functools import cached_property

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcheck.properties.cases.case_tensors import make_generator
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.contracts.variant import get_variant
from headcheck.properties.families.parameter_transforms import (
    make_identity_projection,
    replace_parameters,
    zero_parameters,
)
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import LiveContext
from headcheck.properties.subject import CallOptions
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MemoryLayout
from headcheck.properties.terms.peculiarity import AXIS_OF_ONE, SHORTER_THAN_CONTEXT
from headcheck.reference import Parameters, split_heads

SAMPLES = 120_000
"""how many weights are looked at, unless the submission is slow"""
SHARE_OF_A_CALL = 1 / 4
"""the share of the time of one call that a call with many sequences may take"""
FEWEST_SEQUENCES = 16
SINGLE_TOKEN_SEQUENCES = 4_000
TOKENS = 16
DROPOUT_SEED = 1
"""The seed of the submission's random numbers, so that counts are the same in every run."""
IN_TRAINING = CallOptions(training=True, seed=DROPOUT_SEED)
IN_EVALUATION = CallOptions()
FAR_ABOVE = 1e4
"""a score beside which the weights of others are zero"""
SHORT = (SHORTER_THAN_CONTEXT, AXIS_OF_ONE)
"""the peculiarities of a sequence of a single token"""


def simplify_for_counting(case: Case) -> Case:
    """Return a case with as many tokens as a head has dimensions, and no other options.

    The case is in float32, because only zeros are counted. It has one sequence, because the calls
    use thousands of sequences anyway.
    """
    case = replace(case, tokens=TOKENS, context_length=TOKENS, d_in=TOKENS)
    case = replace(case, batch=min(case.batch, 2))
    case = replace(case, heads=2, head_dim=TOKENS, bias=False, dropout=0.3, sharpness=1)
    case = replace(case, content=InputContent.NORMAL, memory=MemoryLayout.CONTIGUOUS)
    return replace(case, mask_form=MaskForm.NONE, window=TOKENS, dtype="float32")


@dataclass(frozen=True, eq=False)
class RevealedWeights:
    """The attention weights of a sequence in evaluation mode, as recovered from outputs."""

    shown: Float[Tensor, "keys heads queries keys"]
    """the weights shown by equal sequences, as many as there are tokens"""
    without: Float[Tensor, "keys heads queries keys"]
    """the weights shown by the same sequences with one token of each set to zero"""
    single: Float[Tensor, "2 1 d_out"]
    """the outputs of two tokens that see only themselves and whose values are all ones; they are in
    two sequences, since a batch of one is a peculiarity"""
    exact: Float[Tensor, "heads queries keys"]
    """the weights that a right module shows"""
    seconds: float
    """how long one sequence took; 0 if that was too short to be measured"""

    @property
    def visible(self) -> Bool[Tensor, "queries keys"]:
        """Which weights are visible in every head."""
        # A subnormal number, such as exp(-100), is rounded too coarsely for a ratio.
        there = self.shown[0].isfinite() & (self.shown[0].abs() >= torch.finfo(torch.float32).tiny)
        return there.all(0)


def reveal_weights(context: LiveContext) -> RevealedWeights:
    """Call the module in evaluation mode on inputs that reveal dropped weights in training."""
    tokens, heads = context.case.tokens, context.case.heads
    parameters = make_revealing_parameters(context)
    one = make_unlike_tokens(context.case) * draw_units(context)
    without_one = torch.cat([one, one * (1 - torch.eye(tokens)).unsqueeze(-1)])
    # Each is compared with a sequence at the same place: a mask may be that of the first alone.
    clock = context.harness.clock
    began = clock.used_s
    whole, output = (
        context.run_module(x.contiguous(), parameters, options=IN_EVALUATION)[0]
        for x in (one.expand_as(without_one), without_one)
    )
    seconds = (clock.used_s - began) / (2 * len(without_one))
    shown = split_heads(whole, heads)[..., :tokens]
    without = split_heads(output, heads)[1:, ..., :tokens]
    single = run_on_single_values(context, parameters, IN_EVALUATION, 2)
    exact = context.compute_expected(one, parameters).exact.weights
    return RevealedWeights(shown[1:], without, single, exact[0], seconds)


@dataclass(frozen=True, eq=False)
class DropoutObservation:
    """The attention weights of many training calls, relative to their undropped value."""

    visible: Bool[Tensor, "queries keys"]
    """which weights are visible in evaluation mode, in every head"""
    ratios: Float[Tensor, "batch heads queries keys"]
    vanished_rows: Bool[Tensor, "rows"]
    """whether all coordinates of a single token vanished"""
    has_partial_rows: bool
    """whether some coordinates of a single token vanished without the others"""

    @cached_property
    def ratio(self) -> Float[Tensor, "batch heads visible"]:
        """The ratios of the visible weights to their undropped values."""
        return self.ratios[..., self.visible]

    @cached_property
    def usual_ratio(self) -> float:
        """The ratio of most kept weights; NaN if no weight was kept."""
        return float(self.ratio[self.ratio != 0].median())


def observe_dropout(context: LiveContext) -> DropoutObservation:
    """Call the module in training on enough sequences for the counts."""
    case = context.case
    parameters = make_revealing_parameters(context)
    visible = context.list_visible()
    per_sequence = int(visible.sum()) * case.heads
    one = make_unlike_tokens(case) * draw_units(context)
    revealed = context.compute_once(reveal_weights)
    sequences = limit_sequences(context, -(-SAMPLES // per_sequence), case.tokens)
    x = one.expand(sequences, -1, -1).contiguous()
    output = context.run_module(x, parameters, options=IN_TRAINING)[0]
    weights = split_heads(output, case.heads)[..., : case.tokens]
    sequences = count_single_sequences(context)
    single = run_on_single_values(context, parameters, IN_TRAINING, sequences)
    zero = (split_heads(single, case.heads) == 0)[:, 0, 0]
    return DropoutObservation(
        revealed.visible,
        weights / revealed.shown[0].where(revealed.visible, 1.0),
        zero.all(-1),
        bool(zero[~zero.all(-1)].any()),
    )


def limit_sequences(context: LiveContext, wanted: int, tokens: int) -> int:
    """Return how many sequences of so many tokens to call in training: fewer of a slow submission.

    The time of one sequence is known from the calls in evaluation. With fewer samples a right
    module fails as seldom, since the probability of a count takes the samples into account, but a
    rate that is slightly wrong may not show.
    """
    seconds = context.compute_once(reveal_weights).seconds * tokens / context.case.tokens
    if not seconds:
        return wanted
    affordable = int(context.harness.clock.call_s * SHARE_OF_A_CALL / seconds)
    return min(wanted, max(FEWEST_SEQUENCES, affordable))


def count_single_sequences(context: LiveContext) -> int:
    """Return how many sequences show whether the value of their first token vanishes."""
    tokens = get_length_of_single_values(context)
    return limit_sequences(context, SINGLE_TOKEN_SEQUENCES, tokens)


def make_unlike_tokens(case: Case) -> Float[Tensor, "1 tokens d_in"]:
    """Make token j one-hot at index j."""
    x = torch.zeros(1, case.tokens, case.d_in, dtype=torch.float64)
    x[0].fill_diagonal_(1)
    return x


def run_on_single_values(
    context: LiveContext, parameters: Parameters, options: CallOptions, sequences: int
) -> Float[Tensor, "batch 1 d_out"]:
    """Return the outputs of tokens that see only themselves and whose values are all ones.

    Each token is a sequence of its own. If such a sequence is known to be too short for the
    submission and later tokens are hidden, or other tokens can be given no weight, the token is the
    first of a longer sequence.
    """
    case, tokens = context.case, get_length_of_single_values(context)
    x = draw_units(context).expand(sequences, tokens, case.d_in).contiguous()
    if not context.contract.has(Capability.ANY_LENGTH):
        parameters = see_itself(context, parameters)
    return context.run_module(x, parameters, options=options)[0][:, :1]


def get_length_of_single_values(context: LiveContext) -> int:
    """Return the length of the sequences whose first token sees only itself."""
    if not context.contract.has(Capability.ANY_LENGTH):
        return context.case.tokens
    is_too_short = not context.harness.unsupported.keys().isdisjoint(SHORT)
    is_causal = context.contract.has(Capability.CAUSAL)
    return context.case.tokens if is_too_short and is_causal else 1


def see_itself(context: LiveContext, parameters: Parameters) -> Parameters:
    """Return parameters whose learned numbers leave the first token no weight but its own."""
    bias = get_variant(context.contract, context.case).relative
    if bias is None or parameters.W_rel is None:
        return parameters
    first = torch.zeros(1, dtype=torch.int64)
    table = torch.zeros_like(parameters.W_rel)
    table[bias.find_rows(first[:, None], first).flatten()] = FAR_ABOVE / bias.factor
    return replace(parameters, W_rel=table)


def make_revealing_parameters(context: CaseContext) -> Parameters:
    """Return parameters with which each output coordinate is one weight: queries are zero."""
    case = context.case
    unit = torch.eye(case.head_dim, case.d_in, dtype=torch.float64) / draw_units(context)
    unit = unit if context.parameters.W_gate is None else 2 * unit  # a gate of zeros halves it
    zeros = zero_parameters(
        context, "W_q", "W_k", "W_gate", "b_q", "b_k", "b_v", "b_gate", "shift_q"
    )
    values = {"W_v": unit.repeat(case.kv_heads, 1), **make_identity_projection(context)}
    return replace_parameters(context, **zeros, **values)


def draw_units(context: CaseContext) -> Float[Tensor, "d_in"]:
    """Draw a factor for each input dimension: a power of two with either sign.

    The factors depend on the case's seed, so that nobody knows these inputs before the run. The
    values cancel the factors without rounding, so that no count depends on them.
    """
    draw, width = make_generator(context.case, "x2"), (context.case.d_in,)
    exponents = torch.randint(-8, 9, width, generator=draw)
    signs = 1 - 2 * torch.randint(0, 2, width, generator=draw)
    return torch.ldexp(signs.double(), exponents)
