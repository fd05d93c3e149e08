"""Multi-head attention as a pipeline: one replaceable function for every step.

    x → see → enter → project → norm_whole → split → assign → norm → append → place → share → halve
      → map → match → scale → adjust → permit → hide → normalise → subtract → use → mix
      → norm_heads → merge → gate → finish → add → renorm → widen → activate → narrow → close → give

Most exercises have no norms, no latents, no positions, no limits of scores, no gate, one softmax
for each head, no features, and keys for every head. In these exercises `norm_whole`, `norm`,
`append`, `place`, `share`, `halve`, `map`, `adjust`, `subtract`, `norm_heads` and `gate` change
nothing. Norms of queries and keys act in `norm_whole` if they are over all heads, and in `norm` if
they are over each head. `enter` and the steps after `finish` only change something in a block:
norms of tokens, residuals and a feed-forward.

`CORRECT` computes what `reference.multi_head_attention` computes. A mistake replaces one or two of
these functions (`properties.mistakes.catalogue`), and the other steps run as usual, so the effect
of, say, a mistake in the mask on the final output can be compared exactly.

All tensors have a batch axis. Shapes are not checked here: a faulty step may return any shape.
"""

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline_state import AttentionInputs as AttentionInputs
from headcheck.properties.mistakes.pipeline_state import PipelineState as PipelineState
from headcheck.properties.mistakes.pipeline_state import QKVTensors as QKVTensors
from headcheck.properties.mistakes.pipeline_state import linear as linear
from headcheck.properties.mistakes.pipeline_state import map_qkv as map_qkv
from headcheck.properties.mistakes.pipeline_state import map_result as map_result
from headcheck.properties.mistakes.pipeline_state import merge_heads as merge_heads
from headcheck.properties.mistakes.pipeline_state import softmax_with_sinks as softmax_with_sinks
from headcheck.properties.mistakes.pipeline_state import split_heads as split_heads
from headcheck.reference.block import activate
from headcheck.reference.multi_head import append_beside, ask_gate, project_beside
from headcheck.reference.variant import (
    BlockSteps,
    Variant,
    elu_features,
    linear_shares,
    share_heads,
)

# --------------------------------------------------------------------------- the correct steps


def tokens(s: PipelineState) -> QKVTensors:
    """X, three times; in cross-attention X for queries, and Y for keys and values."""
    return s.inputs.sources


def normed_tokens(s: PipelineState) -> QKVTensors:
    """In a block, the tokens go through a norm first."""
    if s.inputs.variant.block is None:
        return s.seen
    return map_qkv(lambda t: norm_tokens(s, t, s.p.gain_in, s.p.shift_in), s.seen)


def norm_tokens(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    """Return the normed tokens of a block. Raises ValueError without a block."""
    return get_block(s).norms.normalise(t, gain, shift)


def get_block(s: PipelineState) -> BlockSteps:
    """Return the steps of a block around its attention. Raises ValueError without a block."""
    if s.inputs.variant.block is None:
        raise ValueError("there is no block")
    return s.inputs.variant.block


def projections(s: PipelineState) -> QKVTensors:
    """X Wᵀ + b, three times; keys and values are projected from latents, if there are any."""
    p, (x, k, v) = s.p, s.entered
    if p.W_down is not None:
        k, v = linear(k, p.W_down), linear(v, p.W_down)
    return linear(x, p.W_q, p.b_q), linear(k, p.W_k, p.b_k), linear(v, p.W_v, p.b_v)


def own_whole_norms(s: PipelineState) -> QKVTensors:
    """Queries and keys of all heads go through a norm together, if the statement asks for that."""
    if not has_whole_norms(s):
        return s.projected
    return norm_both(s, s.projected, get_last_norm(s).normalise)


def norm_both(s: PipelineState, tensors: QKVTensors, norm: Callable[..., Tensor]) -> QKVTensors:
    """Apply a norm to queries and to keys, each with its own gain and shift."""
    query, key, value = tensors
    return norm(query, *s.p.get_norm("q")), norm(key, *s.p.get_norm("k")), value


def has_whole_norms(s: PipelineState) -> bool:
    """Whether queries and keys go through norms before heads are cut."""
    return bool(s.inputs.variant.norm) and s.inputs.variant.norm_over == "projection"


def get_last_norm(s: PipelineState) -> Variant:
    """Return the norm over the last axis, whatever lies there: a head, or a whole projection."""
    return replace(s.inputs.variant, norm_over="head")


def head_blocks(s: PipelineState) -> QKVTensors:
    """Each head takes a block of neighbouring columns."""
    return split_each(split_heads, s)


def split_each(split: Callable[[Tensor, int], Tensor], s: PipelineState) -> QKVTensors:
    """Split queries, keys and values, each into its number of heads."""
    heads, kv_heads = s.inputs.heads, s.inputs.kv_heads
    if kv_heads == heads:
        return map_qkv(lambda t: split(t, heads), s.normed_whole)
    q, k, v = s.normed_whole
    return split(q, heads), split(k, kv_heads), split(v, kv_heads)


def roles_as_projected(s: PipelineState) -> QKVTensors:
    """The projections by W_q, W_k and W_v are the queries, keys and values."""
    return s.split


def own_norms(s: PipelineState) -> QKVTensors:
    """The queries and keys of each head go through a norm, if the statement asks for norms."""
    if not s.inputs.variant.norm or has_whole_norms(s):
        return s.roles
    return norm_both(s, s.roles, s.inputs.variant.normalise)


def own_parts(s: PipelineState) -> QKVTensors:
    """With latents, queries get their own rotating parts, and all heads' keys the same one."""
    beside = project_beside(s.entered[0], s.p, s.entered[1])
    if beside is None:
        return s.normed
    query, key, value = s.normed
    return *append_beside(query, key, beside), value


def own_places(s: PipelineState) -> QKVTensors:
    """Positions rotate queries and keys, if there are positions."""
    query, key, value = s.appended
    if not s.inputs.variant.rotary:
        return s.appended
    last = s.inputs.variant.stand_last(query.shape[-2], key.shape[-2])
    return place_by(s, query, last), place_by(s, key, s.inputs.variant), value


def place_by(s: PipelineState, t: Tensor, variant: Variant) -> Tensor:
    """Rotate queries or keys; of two maps each half of a head is rotated like a head."""
    if s.p.lambdas is None:
        return variant.place(t)
    halves = t.unflatten(-1, (2, -1)).transpose(-3, -2)
    return variant.place(halves).transpose(-3, -2).flatten(-2)


def shared_by_neighbours(s: PipelineState) -> QKVTensors:
    """Neighbouring heads share keys and values, if there are fewer key heads than query heads."""
    query, key, value = s.placed
    heads = query.shape[1]
    if key.shape[1] == heads:
        return s.placed
    return query, share_heads(key, heads), share_heads(value, heads)


def halves_of_heads(s: PipelineState) -> QKVTensors:
    """If there are two maps, the halves of each head's queries and keys follow one another."""
    query, key, value = s.shared
    if s.p.lambdas is None:
        return s.shared
    return split_maps(query), split_maps(key), value


def split_maps(t: Tensor) -> Tensor:
    """Split each head into two heads of half its width."""
    halves: Tensor = t.unflatten(-1, (2, -1))
    return halves.transpose(-3, -2).flatten(1, 2)


def features_of_both(s: PipelineState) -> QKVTensors:
    """Queries and keys become their features, if there is no softmax."""
    query, key, value = s.halved
    if not s.inputs.variant.features:
        return s.halved
    return elu_features(query), elu_features(key), value


def products(s: PipelineState) -> Tensor:
    """Q Kᵀ."""
    return s.query @ s.key.mT


def scaled_products(s: PipelineState) -> Tensor:
    """Q Kᵀ / √d_k, or with the scale of the statement."""
    return s.raw_scores * s.inputs.scale


def adjusted_scores(s: PipelineState) -> Tensor:
    """Scores fall with the distance, or are limited, if the statement says so."""
    return s.inputs.variant.adjust(s.scaled, s.p.W_rel)


def requested_mask(s: PipelineState) -> Tensor | None:
    """The mask that the statement asks for."""
    return s.inputs.may_attend


def filled_with_minus_infinity(s: PipelineState) -> Tensor:
    """Hidden scores become −∞, and hidden products of features 0."""
    nothing = 0.0 if s.inputs.variant.features else -math.inf
    return s.scores if s.visible is None else s.scores.masked_fill(~s.visible, nothing)


def softmax_over_keys(s: PipelineState) -> Tensor:
    """Each query's weights sum to one, or with its head's sink if the statement asks for sinks.

    Without a softmax, weights are products divided by the sum of all products.
    """
    if s.inputs.variant.features:
        return linear_shares(s.masked_scores, epsilon=s.inputs.variant.feature_epsilon)
    if s.p.sinks is None:
        return torch.softmax(s.masked_scores, dim=-1)
    return softmax_with_sinks(s.masked_scores, s.p.sinks)[..., :-1]


def difference_of_maps(s: PipelineState) -> Tensor:
    """Each head's first map minus lambda times its second map, if there are two maps."""
    if s.p.lambdas is None:
        return s.maps
    first, second = get_maps(s)
    return first - s.p.lambdas[:, None, None] * second


def get_maps(s: PipelineState) -> tuple[Tensor, Tensor]:
    """Return the first and the second maps of all heads."""
    return s.maps[:, 0::2], s.maps[:, 1::2]


def unchanged_weights(s: PipelineState) -> Tensor:
    """The weights, unchanged."""
    return s.weights


def average(s: PipelineState) -> Tensor:
    """Σ_j p_ij v_j."""
    return s.applied_weights @ s.value


def own_norms_of_averages(s: PipelineState) -> Tensor:
    """What heads give goes through a norm, if the statement asks for that."""
    norm = s.inputs.variant.head_norm
    return s.averages if norm is None else norm.apply(s.averages, s.p.gain_heads, s.p.shift_heads)


def concatenated_heads(s: PipelineState) -> Tensor:
    """Concat(head_1, …, head_h)."""
    return merge_heads(s.head_contexts)


def gated_context(s: PipelineState) -> Tensor:
    """Concat(…) · sigmoid(X W_gateᵀ), if there is a gate."""
    return s.merged if s.p.W_gate is None else s.merged * torch.sigmoid(ask_gate(s.x, s.p))


def output_layer(s: PipelineState) -> Tensor:
    """Concat(…) W_oᵀ + b_o, if there is an output layer."""
    return s.context if s.p.W_o is None else linear(s.context, s.p.W_o, s.p.b_o)


def sum_with_tokens(s: PipelineState) -> Tensor:
    """X + the output of attention, in a block."""
    return s.attended if s.inputs.variant.block is None else s.seen[0] + s.attended


def normed_sums(s: PipelineState) -> Tensor:
    """In a block the sums go through a norm of their own."""
    if s.inputs.variant.block is None:
        return s.added
    return norm_tokens(s, s.added, s.p.gain_ff, s.p.shift_ff)


def first_layer(s: PipelineState) -> Tensor:
    """X W_1ᵀ + b_1, in a block."""
    return s.renormed if s.p.W_1 is None else linear(s.renormed, s.p.W_1, s.p.b_1)


def activated(s: PipelineState) -> Tensor:
    """GELU, number by number, in a block."""
    return s.hidden if s.inputs.variant.block is None else activate(s.hidden, get_block(s))


def second_layer(s: PipelineState) -> Tensor:
    """X W_2ᵀ + b_2, in a block."""
    return s.active if s.p.W_2 is None else linear(s.active, s.p.W_2, s.p.b_2)


def sum_with_sums(s: PipelineState) -> Tensor:
    """The sums before the norm + the output of the feed-forward, in a block."""
    return s.forwarded if s.inputs.variant.block is None else s.added + s.forwarded


def requested_results(s: PipelineState) -> tuple[Tensor, ...]:
    """The results that the statement asks for."""
    return tuple(select_result(s, name) for name in s.inputs.wanted)


def select_result(s: PipelineState, name: str) -> Tensor:
    """Return one result by its name."""
    match name:
        case "output":
            return s.output
        case "weights":
            return s.applied_weights
        case "logsumexp":
            return torch.logsumexp(s.masked_scores, dim=-1)
        case "matrix":
            return s.applied_weights[:, 0]
    raise ValueError(f"select_result: there is no {name}; ask for output, weights or matrix")


def values_alone(s: PipelineState) -> Tensor:
    """Every token keeps its own value: no attention."""
    return s.value


StepOverrides = Mapping[str, Callable[[PipelineState], object]]
"""Functions that replace steps, by the names of the steps."""


@dataclass(frozen=True)
class Pipeline:
    """One function for every step, in order."""

    see: Callable[[PipelineState], QKVTensors] = tokens
    enter: Callable[[PipelineState], QKVTensors] = normed_tokens
    project: Callable[[PipelineState], QKVTensors] = projections
    norm_whole: Callable[[PipelineState], QKVTensors] = own_whole_norms
    split: Callable[[PipelineState], QKVTensors] = head_blocks
    assign: Callable[[PipelineState], QKVTensors] = roles_as_projected
    norm: Callable[[PipelineState], QKVTensors] = own_norms
    append: Callable[[PipelineState], QKVTensors] = own_parts
    place: Callable[[PipelineState], QKVTensors] = own_places
    share: Callable[[PipelineState], QKVTensors] = shared_by_neighbours
    halve: Callable[[PipelineState], QKVTensors] = halves_of_heads
    map: Callable[[PipelineState], QKVTensors] = features_of_both
    match: Callable[[PipelineState], Tensor] = products
    scale: Callable[[PipelineState], Tensor] = scaled_products
    adjust: Callable[[PipelineState], Tensor] = adjusted_scores
    permit: Callable[[PipelineState], Tensor | None] = requested_mask
    hide: Callable[[PipelineState], Tensor] = filled_with_minus_infinity
    normalise: Callable[[PipelineState], Tensor] = softmax_over_keys
    subtract: Callable[[PipelineState], Tensor] = difference_of_maps
    use: Callable[[PipelineState], Tensor] = unchanged_weights
    mix: Callable[[PipelineState], Tensor] = average
    norm_heads: Callable[[PipelineState], Tensor] = own_norms_of_averages
    merge: Callable[[PipelineState], Tensor] = concatenated_heads
    gate: Callable[[PipelineState], Tensor] = gated_context
    finish: Callable[[PipelineState], Tensor] = output_layer
    add: Callable[[PipelineState], Tensor] = sum_with_tokens
    renorm: Callable[[PipelineState], Tensor] = normed_sums
    widen: Callable[[PipelineState], Tensor] = first_layer
    activate: Callable[[PipelineState], Tensor] = activated
    narrow: Callable[[PipelineState], Tensor] = second_layer
    close: Callable[[PipelineState], Tensor] = sum_with_sums
    give: Callable[[PipelineState], tuple[Tensor, ...]] = requested_results

    def override(self, overrides: StepOverrides) -> "Pipeline":
        """Return this pipeline with some steps replaced."""
        return replace(self, **overrides)  # type: ignore[arg-type]  # each fits its own step


CORRECT = Pipeline()
WITHOUT_ATTENTION = replace(CORRECT, mix=values_alone)
"""A pipeline without attention, which returns the projected values."""

Dropping = Callable[[Pipeline, float, bool], Pipeline]
"""Adds dropout at a rate to a pipeline, for a call in training or in evaluation."""

STEP_NAMES = tuple(step.name for step in fields(Pipeline))
RESULT_NAMES = tuple(step.name for step in fields(PipelineState) if step.name != "inputs")
"""The field of the state that each step computes, in the order of the steps."""


def run_pipeline(pipeline: Pipeline, inputs: AttentionInputs) -> PipelineState:
    """Return all results of a pipeline. Raises one of SHAPE_ERRORS if shapes do not match."""
    state = PipelineState(inputs)
    for step, result_name in zip(STEP_NAMES, RESULT_NAMES, strict=True):
        setattr(state, result_name, getattr(pipeline, step)(state))
    return state


SHAPE_ERRORS = (RuntimeError, ValueError, IndexError)
"""The exceptions for shapes that do not match, as a program with the mistake would raise them."""
