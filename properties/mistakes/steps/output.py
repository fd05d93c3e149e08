"""Faulty steps from weights and values to the returned results."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    PipelineState,
    linear,
    merge_heads,
    output_layer,
    select_result,
    sum_with_sums,
)

# ---------------------------------------------------------------------------------------- merge


def without_transpose(s: PipelineState) -> Tensor:
    b, _, t, _ = s.head_contexts.shape
    return s.head_contexts.reshape(b, t, -1)


def channels_first(s: PipelineState) -> Tensor:
    return s.head_contexts.permute(0, 2, 3, 1).flatten(-2)


def viewed_from_the_front(s: PipelineState) -> Tensor:
    """Move the heads in front of the batch and read the result as (batch, tokens, width)."""
    b, _, t, _ = s.head_contexts.shape
    return s.head_contexts.transpose(0, 1).reshape(b, t, -1)


def heads_reordered(
    order: Callable[[Sequence[int]], Sequence[int]],
) -> Callable[[PipelineState], Tensor]:
    """Lay the heads side by side in another order."""
    return lambda s: merge_heads(s.head_contexts[:, list(order(range(s.head_contexts.shape[1])))])


def one_head_repeated(combine: Callable[[Tensor], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Replace every head by one head, or by one combination of the heads."""
    return lambda s: merge_heads(combine(s.head_contexts).expand_as(s.head_contexts))


def one_head_alone(combine: Callable[[Tensor], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Return one head, or one combination of the heads, as narrow as a head."""
    return lambda s: merge_heads(combine(s.head_contexts))


def heads_concatenated_along(dim: int) -> Callable[[PipelineState], Tensor]:
    """Concatenate the heads along another dimension."""
    return lambda s: torch.cat(s.head_contexts.unbind(1), dim=dim)


def heads_stacked_along(dim: int) -> Callable[[PipelineState], Tensor]:
    """Stack the heads along a new dimension."""
    return lambda s: torch.stack(s.head_contexts.unbind(1), dim=dim)


def repeated_columns(combine: Callable[[Tensor], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Repeat each column of one combination of the heads once for every head."""
    return lambda s: combine(s.head_contexts)[:, 0].repeat_interleave(
        s.head_contexts.shape[1], dim=-1
    )


def only_heads(which: Callable[[int], Sequence[int]]) -> Callable[[PipelineState], Tensor]:
    """Keep these heads and replace the others by zeros."""

    def merge(s: PipelineState) -> Tensor:
        some = torch.zeros_like(s.head_contexts)
        heads = list(which(s.head_contexts.shape[1]))
        some[:, heads] = s.head_contexts[:, heads]
        return merge_heads(some)

    return merge


def heads_last(s: PipelineState) -> Tensor:
    return s.head_contexts.flatten(-2)


# --------------------------------------------------------------------------------------- finish


def context_itself(s: PipelineState) -> Tensor:
    return s.context


def output_layer_twice(s: PipelineState) -> Tensor:
    if s.p.W_o is None:
        raise ValueError("there is no output layer")
    return linear(output_layer(s), s.p.W_o, s.p.b_o)


def output_bias_times(number: float) -> Callable[[PipelineState], Tensor]:
    def finish(s: PipelineState) -> Tensor:
        p = s.p
        if p.W_o is None or p.b_o is None:
            raise ValueError("there is no output layer, or it has no bias")
        return linear(s.context, p.W_o, number * p.b_o)

    return finish


def output_weight_as_stored(s: PipelineState) -> Tensor:
    p = s.p
    if p.W_o is None:
        raise ValueError("there is no output layer")
    return linear(s.context, p.W_o.mT, p.b_o)


def with_input_where_it_fits(s: PipelineState) -> Tensor:
    output = output_layer(s)
    return output + s.inputs.x if output.shape == s.inputs.x.shape else output


def output_followed_by(function: Callable[[Tensor], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Apply a function to the output."""
    return lambda s: function(output_layer(s))


def result_followed_by(function: Callable[[Tensor], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Apply a function to the returned output."""
    return lambda s: function(sum_with_sums(s))


def layer_norm(t: Tensor) -> Tensor:
    return F.layer_norm(t, t.shape[-1:])


def unmerged_last(s: PipelineState) -> Tensor:
    output = output_layer(s)
    return output.reshape(*output.shape[:-1], s.inputs.heads, -1)


def values_projected(s: PipelineState) -> Tensor:
    return merge_heads(s.value)


def input_itself(s: PipelineState) -> Tensor:
    return s.inputs.x


# ----------------------------------------------------------------------------------------- give


def returned_results(*names: str) -> Callable[[PipelineState], tuple[Tensor, ...]]:
    """Return these results, whatever the statement asks for."""
    return lambda s: tuple(
        s.applied_weights if name == "weights" else select_result(s, name) for name in names
    )


def returned_weights(
    change: Callable[[PipelineState], Tensor],
) -> Callable[[PipelineState], tuple[Tensor, ...]]:
    """Return something else instead of the weights that the statement asks for."""

    def give(s: PipelineState) -> tuple[Tensor, ...]:
        return tuple(
            s.output if name == "output" else change(s)[:, 0] if name == "matrix" else change(s)
            for name in s.inputs.wanted
        )

    return give


def weights_for_all_heads(s: PipelineState) -> Tensor:
    return s.applied_weights.expand(-1, s.inputs.heads, -1, -1)
