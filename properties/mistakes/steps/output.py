"""Wrong steps from weights and values to what is returned."""

from collections.abc import Callable, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor

from properties.mistakes.pipeline import Steps, asked, linear, merge_heads, output_layer

# ------------------------------------------------------------------------------------------ mix


def own_values(s: Steps) -> Tensor:
    return s.value


def by_features(s: Steps) -> Tensor:
    return s.value @ s.used


def by_transposed_weights(s: Steps) -> Tensor:
    return s.used.mT @ s.value


def own_value_by_own_weight(s: Steps) -> Tensor:
    return s.used.diagonal(dim1=-2, dim2=-1).unsqueeze(-1) * s.value


def own_value_by_all_weights(s: Steps) -> Tensor:
    return s.used.sum(dim=-1, keepdim=True) * s.value


def divided_by_tokens(s: Steps) -> Tensor:
    return s.used @ s.value / s.given.tokens


# ---------------------------------------------------------------------------------------- merge


def without_transpose(s: Steps) -> Tensor:
    b, _, t, _ = s.mixed.shape
    return s.mixed.reshape(b, t, -1)


def channels_first(s: Steps) -> Tensor:
    return s.mixed.permute(0, 2, 3, 1).flatten(-2)


def viewed_from_the_front(s: Steps) -> Tensor:
    """Heads stacked in front of the batch, and everything read as (batch, tokens, width)."""
    b, _, t, _ = s.mixed.shape
    return s.mixed.transpose(0, 1).reshape(b, t, -1)


def batch_for_heads(s: Steps) -> Tensor:
    """Heads in front of the batch, read as a batch in front of heads."""
    return merge_heads(s.mixed.transpose(0, 1).reshape(s.mixed.shape))


def cut_or_padded(s: Steps) -> Tensor:
    return F.pad(s.given.x, (0, s.given.d_out - s.given.d_in))


def ordered(order: Callable[[Sequence[int]], Sequence[int]]) -> Callable[[Steps], Tensor]:
    """The heads side by side, in another order."""
    return lambda s: merge_heads(s.mixed[:, list(order(range(s.mixed.shape[1])))])


def one_for_all(combine: Callable[[Tensor], Tensor]) -> Callable[[Steps], Tensor]:
    """One head, or one combination of the heads, in the place of each."""
    return lambda s: merge_heads(combine(s.mixed).expand_as(s.mixed))


def one_alone(combine: Callable[[Tensor], Tensor]) -> Callable[[Steps], Tensor]:
    """One head, or one combination of the heads: as narrow as a head."""
    return lambda s: merge_heads(combine(s.mixed))


def along(dim: int) -> Callable[[Steps], Tensor]:
    """The heads one after the other along another dimension."""
    return lambda s: torch.cat(s.mixed.unbind(1), dim=dim)


def stacked(dim: int) -> Callable[[Steps], Tensor]:
    """The heads in a dimension of their own."""
    return lambda s: torch.stack(s.mixed.unbind(1), dim=dim)


def repeated_columns(combine: Callable[[Tensor], Tensor]) -> Callable[[Steps], Tensor]:
    """One combination of the heads, each column of it as often as there are heads."""
    return lambda s: combine(s.mixed)[:, 0].repeat_interleave(s.mixed.shape[1], dim=-1)


def kept(which: Callable[[int], Sequence[int]]) -> Callable[[Steps], Tensor]:
    """These heads in their places, and zeros for the others."""

    def merge(s: Steps) -> Tensor:
        some = torch.zeros_like(s.mixed)
        heads = list(which(s.mixed.shape[1]))
        some[:, heads] = s.mixed[:, heads]
        return merge_heads(some)

    return merge


def heads_last(s: Steps) -> Tensor:
    return s.mixed.flatten(-2)


def relu_of_context(s: Steps) -> Tensor:
    return merge_heads(s.mixed).relu()


# --------------------------------------------------------------------------------------- finish


def context_itself(s: Steps) -> Tensor:
    return s.context


def twice(s: Steps) -> Tensor:
    p = s.p
    if p.W_o is None:
        raise ValueError("there is no output layer")
    return linear(linear(s.context, p.W_o, p.b_o), p.W_o, p.b_o)


def output_bias_times(number: float) -> Callable[[Steps], Tensor]:
    def finish(s: Steps) -> Tensor:
        p = s.p
        if p.W_o is None or p.b_o is None:
            raise ValueError("there is no output layer, or it has no bias")
        return linear(s.context, p.W_o, number * p.b_o)

    return finish


def output_weight_as_stored(s: Steps) -> Tensor:
    p = s.p
    if p.W_o is None:
        raise ValueError("there is no output layer")
    return linear(s.context, p.W_o.mT, p.b_o)


def with_input(s: Steps) -> Tensor:
    return output_layer(s) + s.given.x


def with_input_where_it_fits(s: Steps) -> Tensor:
    output = output_layer(s)
    return output + s.given.x if output.shape == s.given.x.shape else output


def finished_by(function: Callable[[Tensor], Tensor]) -> Callable[[Steps], Tensor]:
    """One more function on the output."""
    return lambda s: function(output_layer(s))


def layer_norm(t: Tensor) -> Tensor:
    return F.layer_norm(t, t.shape[-1:])


def unmerged(s: Steps) -> Tensor:
    return s.mixed.transpose(1, 2)


def unmerged_last(s: Steps) -> Tensor:
    *size, _ = output_layer(s).shape
    return output_layer(s).reshape(*size, s.given.heads, -1)


def values_projected(s: Steps) -> Tensor:
    return merge_heads(s.value)


def input_itself(s: Steps) -> Tensor:
    return s.given.x


# ----------------------------------------------------------------------------------------- give


def returned(*names: str) -> Callable[[Steps], tuple[Tensor, ...]]:
    """These, whatever was asked for."""
    return lambda s: tuple(s.used if name == "weights" else asked(s, name) for name in names)


def weights_too(name: str) -> Callable[[Steps], tuple[Tensor, ...]]:
    """The weights beside the output, where only that is asked for."""

    def give(s: Steps) -> tuple[Tensor, ...]:
        if len(s.given.wanted) > 1:
            raise ValueError("the weights are asked for")
        return s.output, asked(s, name)

    return give


def given_weights(change: Callable[[Steps], Tensor]) -> Callable[[Steps], tuple[Tensor, ...]]:
    """Something else in the place of the weights that are asked for."""

    def give(s: Steps) -> tuple[Tensor, ...]:
        return tuple(
            asked(s, name) if name == "output" else _as_asked(change(s), name)
            for name in s.given.wanted
        )

    return give


def _as_asked(weights: Tensor, name: str) -> Tensor:
    return weights[:, 0] if name == "matrix" else weights


def for_all_heads(s: Steps) -> Tensor:
    return s.used.expand(-1, s.given.heads, -1, -1)


def before_any_mask(s: Steps) -> Tensor:
    return torch.softmax(s.scores, dim=-1)
