"""Faulty steps from queries and keys to the weights by which values are averaged."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.mistakes.pipeline import PipelineState, filled_with_minus_infinity

# ---------------------------------------------------------------------------------------- match


def absolute(s: PipelineState) -> Tensor:
    return (s.query @ s.key.mT).abs()


def cosines(s: PipelineState) -> Tensor:
    return F.normalize(s.query, dim=-1) @ F.normalize(s.key, dim=-1).mT


def normalised(s: PipelineState) -> Tensor:
    """Compare queries and keys after a layer norm of each."""
    query, key = (F.layer_norm(t, t.shape[-1:]) for t in (s.query, s.key))
    return query @ key.mT


def normalised_by_mean_square(s: PipelineState) -> Tensor:
    q, k = s.query, s.key
    return F.rms_norm(q, q.shape[-1:]) @ F.rms_norm(k, k.shape[-1:]).mT


def summed_over_heads(s: PipelineState) -> Tensor:
    scores = s.query @ s.key.mT
    return scores.sum(dim=1, keepdim=True).expand_as(scores)


def averaged_over_batch(s: PipelineState) -> Tensor:
    scores = s.query @ s.key.mT
    return scores.mean(dim=0, keepdim=True).expand_as(scores)


# ---------------------------------------------------------------------------------------- scale


def unscaled(s: PipelineState) -> Tensor:
    return s.raw_scores


def divided_by(divisor: Callable[[PipelineState], float]) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.raw_scores / divisor(s)


# --------------------------------------------------------------------------------------- permit


def _past(s: PipelineState, by: int = 0) -> Tensor:
    """Return a mask that shows each query the keys up to its own place, and `by` more.

    If there is a window, its beginning is right.
    """
    past = torch.ones(s.inputs.tokens, s.inputs.keys).bool().tril(by + s.inputs.earlier)
    return past.triu(1 - s.inputs.window) if s.inputs.window else past


def no_mask(s: PipelineState) -> Tensor | None:
    return None


def diagonal_shifted(by: int) -> Callable[[PipelineState], Tensor | None]:
    """Shift the diagonal of the module's own mask."""

    def permit(s: PipelineState) -> Tensor | None:
        if not s.inputs.causal:
            return s.inputs.may_attend
        return _past(s, by)

    return permit


def window_of(width: int) -> Callable[[PipelineState], Tensor | None]:
    """Hide tokens at a distance of `width` or more, in addition to the mask."""

    def permit(s: PipelineState) -> Tensor | None:
        queries, keys = torch.arange(s.inputs.tokens), torch.arange(s.inputs.keys)
        near = (queries[:, None] + s.inputs.earlier - keys).abs() < width
        return near if s.inputs.may_attend is None else near & s.inputs.may_attend

    return permit


def causal_of_any_size(s: PipelineState) -> Tensor | None:
    """Return a causal mask like a kernel's, which adapts to any shape of the scores."""
    return torch.ones(s.scores.shape[-2:], dtype=torch.bool).tril() if s.inputs.causal else None


def with_mask(change: Callable[[Tensor], Tensor]) -> Callable[[PipelineState], Tensor | None]:
    """Change the mask, if there is one."""

    def permit(s: PipelineState) -> Tensor | None:
        mask = s.inputs.may_attend
        return None if mask is None else change(mask)

    return permit


mask_transposed = with_mask(lambda mask: mask.mT)
padding_transposed = with_mask(
    lambda mask: mask.mT if mask.dim() == 4 and mask.shape[-2] == 1 else mask
)
mask_inverted = with_mask(lambda mask: ~mask)


def mask_on_first(dim: int) -> Callable[[PipelineState], Tensor | None]:
    """Apply the mask only to the first entry along a dimension: a sequence (0) or a head (1)."""

    def permit(s: PipelineState) -> Tensor | None:
        mask = s.inputs.may_attend
        if mask is None:
            return None
        shown = mask.expand(s.scores.shape).clone()
        shown.narrow(dim, 1, shown.shape[dim] - 1).fill_(True)
        return shown

    return permit


def future_too(s: PipelineState) -> Tensor:
    past = _past(s)
    return past if s.inputs.may_attend is None else past & s.inputs.may_attend


def future_in_a_square_mask(s: PipelineState) -> Tensor:
    """Hide later keys with a square mask. Raises RuntimeError if keys come from other tokens."""
    square = torch.ones(s.inputs.tokens, s.inputs.tokens).bool().tril()
    return square.expand(s.scores.shape) & future_too(s)


def zero_tokens_hidden(s: PipelineState) -> Tensor:
    filled = (s.seen[1] != 0).any(-1)[:, None, None, :]
    return filled if s.inputs.may_attend is None else filled & s.inputs.may_attend


def future_beside_mask(s: PipelineState) -> Tensor | None:
    return _past(s)


def future_where_no_mask_is(s: PipelineState) -> Tensor | None:
    return _past(s) if s.inputs.may_attend is None else s.inputs.may_attend


def without_own_token(s: PipelineState) -> Tensor | None:
    """Hide every token's own key, whatever the caller's mask says."""
    mask = s.inputs.may_attend
    others = ~torch.eye(s.inputs.tokens, s.inputs.keys, dtype=torch.bool)
    return mask if s.inputs.causal else others if mask is None else mask & others


# ----------------------------------------------------------------------------------------- hide


def filled_with(number: float) -> Callable[[PipelineState], Tensor]:
    return lambda s: s.scores if s.visible is None else s.scores.masked_fill(~s.visible, number)


def filled_before_scaling(number: float) -> Callable[[PipelineState], Tensor]:
    """Fill hidden scores with a number, and apply the scale afterwards."""
    return lambda s: filled_with(number * s.inputs.scale)(s)


def raised_by(number: float) -> Callable[[PipelineState], Tensor]:
    """Add a number to the hidden scores."""
    return lambda s: s.scores if s.visible is None else s.scores + ~s.visible * number


def lowered_by_infinity(s: PipelineState) -> Tensor:
    """Add −∞ to the hidden scores: in a row of only −∞, gradients are NaN, too."""
    if s.visible is None:
        return s.scores
    return s.scores + torch.zeros_like(s.scores).masked_fill(~s.visible, -math.inf)


def lowered_besides(
    permit: Callable[[PipelineState], Tensor | None],
) -> Callable[[PipelineState], Tensor]:
    """Fill masked scores with −∞, then scores that `permit` hides with a large negative number."""

    def hide(s: PipelineState) -> Tensor:
        visible = permit(s)
        masked = filled_with_minus_infinity(s)
        return masked if visible is None else masked.masked_fill(~visible, -1e9)

    return hide


def lowered_beside_mask(number: float) -> Callable[[PipelineState], Tensor]:
    """Subtract a large number from the visible scores, which lose digits by this."""
    return lambda s: filled_with_minus_infinity(s) - number


def zero_scores_hidden(s: PipelineState) -> Tensor:
    if s.visible is None:
        return s.scores
    kept = s.scores * s.visible
    return kept.masked_fill(kept == 0, -math.inf)


filled_with_minus_1e9 = filled_with(-1e9)


def unmasked(s: PipelineState) -> Tensor:
    return s.scores


# ------------------------------------------------------------------------------------ normalise


def softmax_over(*dims: int) -> Callable[[PipelineState], Tensor]:
    """Take a single softmax over all entries along these dimensions."""

    def normalise(s: PipelineState) -> Tensor:
        exponentials = (s.masked_scores - s.masked_scores.amax(dim=dims, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=dims, keepdim=True)

    return normalise


def softmax_masked_softmax(s: PipelineState) -> Tensor:
    once = torch.softmax(s.masked_scores, dim=-1)
    return torch.softmax(once if s.visible is None else once * s.visible, dim=-1)


def scores_themselves(s: PipelineState) -> Tensor:
    return s.masked_scores


def logarithms(s: PipelineState) -> Tensor:
    return torch.log_softmax(s.masked_scores, dim=-1)


def divided_by_sum(s: PipelineState) -> Tensor:
    scores = s.masked_scores.masked_fill(s.masked_scores == -math.inf, 0.0)
    return scores / scores.sum(dim=-1, keepdim=True)


def relu_divided_by_sum(extra: float = 0.0) -> Callable[[PipelineState], Tensor]:
    def normalise(s: PipelineState) -> Tensor:
        kept = (s.masked_scores.relu() + extra).masked_fill(s.masked_scores == -math.inf, 0.0)
        return kept / kept.sum(dim=-1, keepdim=True)

    return normalise


def hardmax(s: PipelineState) -> Tensor:
    scores = s.masked_scores
    return F.one_hot(scores.argmax(dim=-1), scores.shape[-1]).to(scores.dtype)


def softmax_of_absolute(s: PipelineState) -> Tensor:
    scores = s.masked_scores
    return torch.softmax(scores.abs().masked_fill(scores == -math.inf, -math.inf), dim=-1)


def denominator_plus(extra: float, shifted_by_maximum: bool) -> Callable[[PipelineState], Tensor]:
    """Add a number to the sum of the exponentials."""

    def normalise(s: PipelineState) -> Tensor:
        top = s.masked_scores.amax(dim=-1, keepdim=True)
        exponentials = (s.masked_scores - (top if shifted_by_maximum else 0.0)).exp()
        return exponentials / (exponentials.sum(dim=-1, keepdim=True) + extra)

    return normalise


def unshifted(s: PipelineState) -> Tensor:
    # exp overflows float64 at 709.
    exponentials = s.masked_scores.exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def unshifted_and_masked(s: PipelineState) -> Tensor:
    """Normalise as `unshifted` does, with hidden exponentials multiplied by 0."""
    exponentials = s.masked_scores.exp() if s.visible is None else s.masked_scores.exp() * s.visible
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def shifted_by_one_maximum(*dims: int) -> Callable[[PipelineState], Tensor]:
    """Subtract the largest score along these dimensions from all scores."""

    def normalise(s: PipelineState) -> Tensor:
        exponentials = (s.masked_scores - s.masked_scores.amax(dim=dims, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return normalise


def divided_by_column_sums(s: PipelineState) -> Tensor:
    """Divide column j by the sum of row j, as row sums without keepdim do."""
    kept = torch.softmax(s.scores, dim=-1)
    kept = kept if s.visible is None else kept * s.visible
    return kept / kept.sum(dim=-1).unsqueeze(-2)


# ------------------------------------------------------------------------------------------ use


def nan_replaced(s: PipelineState) -> Tensor:
    return s.weights.nan_to_num(neginf=0.0)


def identity_weights(s: PipelineState) -> Tensor:
    eye = torch.eye(s.inputs.tokens, s.inputs.keys, dtype=s.raw_scores.dtype)
    return eye.expand(s.weights.shape)
