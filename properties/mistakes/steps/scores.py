"""Wrong steps from queries and keys to the weights by which values are averaged."""

import math
from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from properties.mistakes.pipeline import Steps, minus_infinity
from properties.mistakes.steps.layers import first_head, first_sequence
from reference.masks import causal

# ---------------------------------------------------------------------------------------- match


def negated(s: Steps) -> Tensor:
    return -(s.query @ s.key.mT)


def absolute(s: Steps) -> Tensor:
    return (s.query @ s.key.mT).abs()


def keys_viewed(s: Steps) -> Tensor:
    return s.query @ s.key.reshape(*s.key.shape[:-2], s.key.shape[-1], s.key.shape[-2])


def cosines(s: Steps) -> Tensor:
    return F.normalize(s.query, dim=-1) @ F.normalize(s.key, dim=-1).mT


def distances(s: Steps) -> Tensor:
    return -(s.query.unsqueeze(-2) - s.key.unsqueeze(-3)).square().sum(-1)


def summed_over_heads(s: Steps) -> Tensor:
    scores = s.query @ s.key.mT
    return scores.sum(dim=1, keepdim=True).expand_as(scores)


def averaged_over_batch(s: Steps) -> Tensor:
    scores = s.query @ s.key.mT
    return scores.mean(dim=0, keepdim=True).expand_as(scores)


def features_with_features(s: Steps) -> Tensor:
    return s.query.mT @ s.key


def not_transposed(s: Steps) -> Tensor:
    return s.query @ s.key


def scores_of_first_head(s: Steps) -> Tensor:
    return first_head(s.query @ s.key.mT)


# ---------------------------------------------------------------------------------------- scale


def unscaled(s: Steps) -> Tensor:
    return s.raw


def divided_by(divisor: Callable[[Steps], float]) -> Callable[[Steps], Tensor]:
    return lambda s: s.raw / divisor(s)


def scaled_again(s: Steps) -> Tensor:
    return s.raw * s.given.scale * s.given.scale


# --------------------------------------------------------------------------------------- permit


def everybody(s: Steps) -> Tensor | None:
    return None


def shifted(by: int) -> Callable[[Steps], Tensor | None]:
    """The module's own mask, starting at another diagonal."""

    def permit(s: Steps) -> Tensor | None:
        if not s.given.causal:
            return s.given.may_attend
        return torch.ones(s.given.tokens, s.given.tokens, dtype=torch.bool).tril(by)

    return permit


def window_of(width: int) -> Callable[[Steps], Tensor | None]:
    """Only tokens nearer than `width`, besides what the mask says."""

    def permit(s: Steps) -> Tensor | None:
        position = torch.arange(s.given.tokens)
        near = (position[:, None] - position).abs() < width
        return near if s.given.may_attend is None else near & s.given.may_attend

    return permit


def rows_from_the_end(s: Steps) -> Tensor | None:
    if not s.given.causal:
        return s.given.may_attend
    size = s.given.context_length
    return causal(size)[size - s.given.tokens :, : s.given.tokens]


def causal_of_any_size(s: Steps) -> Tensor | None:
    """A kernel's own causal mask, whatever the dimensions are."""
    return torch.ones(s.scores.shape[-2:], dtype=torch.bool).tril() if s.given.causal else None


def transposed(s: Steps) -> Tensor | None:
    mask = s.given.may_attend
    return None if mask is None else mask.mT


def padding_transposed(s: Steps) -> Tensor | None:
    mask = s.given.may_attend
    padding = mask is not None and mask.dim() == 4 and mask.shape[-2] == 1
    return mask.mT if mask is not None and padding else mask


def inverted(s: Steps) -> Tensor | None:
    mask = s.given.may_attend
    return None if mask is None else ~mask


def _whole(s: Steps) -> Tensor | None:
    mask = s.given.may_attend
    return None if mask is None else mask.expand(s.scores.shape)


def on_first_head(s: Steps) -> Tensor | None:
    mask = _whole(s)
    if mask is None:
        return None
    mask = mask.clone()
    mask[:, 1:] = True
    return mask


def on_first_sequence(s: Steps) -> Tensor | None:
    mask = _whole(s)
    if mask is None:
        return None
    mask = mask.clone()
    mask[1:] = True
    return mask


def of_first_head(s: Steps) -> Tensor | None:
    mask = _whole(s)
    return None if mask is None else first_head(mask)


def of_first_sequence(s: Steps) -> Tensor | None:
    mask = _whole(s)
    return None if mask is None else first_sequence(mask)


def future_too(s: Steps) -> Tensor | None:
    past = causal(s.given.tokens)
    return past if s.given.may_attend is None else past & s.given.may_attend


def future_beside_mask(s: Steps) -> Tensor | None:
    return causal(s.given.tokens)


def future_where_no_mask_is(s: Steps) -> Tensor | None:
    return causal(s.given.tokens) if s.given.may_attend is None else s.given.may_attend


def oneself(allowed: bool) -> Callable[[Steps], Tensor | None]:
    """The diagonal of a mask that was handed in, whatever it says."""

    def permit(s: Steps) -> Tensor | None:
        mask = _whole(s)
        diagonal = torch.eye(s.given.tokens, dtype=torch.bool)
        if s.given.causal or (mask is None and allowed):
            return mask
        if mask is None:
            return ~diagonal
        return mask | diagonal if allowed else mask & ~diagonal

    return permit


# ----------------------------------------------------------------------------------------- hide


def filled_with(number: float) -> Callable[[Steps], Tensor]:
    return lambda s: s.scores if s.visible is None else s.scores.masked_fill(~s.visible, number)


def filled_before_scaling(number: float) -> Callable[[Steps], Tensor]:
    """As `filled_with`, and the scale comes after it."""
    return lambda s: filled_with(number * s.given.scale)(s)


def raised_by(number: float) -> Callable[[Steps], Tensor]:
    """A number is added to the hidden scores."""
    return lambda s: s.scores if s.visible is None else s.scores + ~s.visible * number


def lowered_besides(permit: Callable[[Steps], Tensor | None]) -> Callable[[Steps], Tensor]:
    """What the mask hides becomes −∞; then what more is hidden, a large negative number."""

    def hide(s: Steps) -> Tensor:
        visible = permit(s)
        masked = minus_infinity(s)
        return masked if visible is None else masked.masked_fill(~visible, -1e9)

    return hide


def visible_raised(s: Steps) -> Tensor:
    return s.scores if s.visible is None else s.scores + s.visible


def zero_scores_hidden(s: Steps) -> Tensor:
    if s.visible is None:
        return s.scores
    kept = s.scores * s.visible
    return kept.masked_fill(kept == 0, -math.inf)


lowest = filled_with(-1e9)


def unmasked(s: Steps) -> Tensor:
    return s.scores


# ------------------------------------------------------------------------------------ normalise


def softmax_over(*dims: int) -> Callable[[Steps], Tensor]:
    """One softmax over all entries along these dimensions."""

    def normalise(s: Steps) -> Tensor:
        exponentials = (s.masked - s.masked.amax(dim=dims, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=dims, keepdim=True)

    return normalise


def softmax_twice(s: Steps) -> Tensor:
    return torch.softmax(torch.softmax(s.masked, dim=-1), dim=-1)


def softmax_masked_softmax(s: Steps) -> Tensor:
    once = torch.softmax(s.masked, dim=-1)
    return torch.softmax(once if s.visible is None else once * s.visible, dim=-1)


def scores_themselves(s: Steps) -> Tensor:
    return s.masked


def logarithms(s: Steps) -> Tensor:
    return torch.log_softmax(s.masked, dim=-1)


def divided_by_sum(s: Steps) -> Tensor:
    scores = s.masked.masked_fill(s.masked == -math.inf, 0.0)
    return scores / scores.sum(dim=-1, keepdim=True)


def relu_divided_by_sum(s: Steps) -> Tensor:
    kept = s.masked.relu()
    return kept / kept.sum(dim=-1, keepdim=True)


def sigmoids(s: Steps) -> Tensor:
    return torch.sigmoid(s.masked)


def equal_shares(s: Steps) -> Tensor:
    return torch.softmax(s.masked.masked_fill(s.masked != -math.inf, 0.0), dim=-1)


def all_to_the_best(s: Steps) -> Tensor:
    return F.one_hot(s.masked.argmax(dim=-1), s.masked.shape[-1]).to(s.masked.dtype)


def all_to_the_best_ones(s: Steps) -> Tensor:
    return (s.masked == s.masked.amax(dim=-1, keepdim=True)).to(s.masked.dtype)


def powers_of_two(s: Steps) -> Tensor:
    return torch.softmax(s.masked * math.log(2), dim=-1)


def softmax_of_absolute(s: Steps) -> Tensor:
    return torch.softmax(s.masked.abs().masked_fill(s.masked == -math.inf, -math.inf), dim=-1)


def denominator_plus(extra: float, shifted_by_maximum: bool) -> Callable[[Steps], Tensor]:
    """Something is added to the sum of exponentials."""

    def normalise(s: Steps) -> Tensor:
        top = s.masked.amax(dim=-1, keepdim=True)
        exponentials = (s.masked - (top if shifted_by_maximum else 0.0)).exp()
        return exponentials / (exponentials.sum(dim=-1, keepdim=True) + extra)

    return normalise


def exponentials_alone(s: Steps) -> Tensor:
    return s.masked.exp()


def unshifted(s: Steps) -> Tensor:
    # float64 overflows at 709.
    exponentials = s.masked.exp()
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def unshifted_and_masked(s: Steps) -> Tensor:
    """The same, where hidden exponentials are multiplied by 0."""
    exponentials = s.masked.exp() if s.visible is None else s.masked.exp() * s.visible
    return exponentials / exponentials.sum(dim=-1, keepdim=True)


def shifted_by_one_maximum(*dims: int) -> Callable[[Steps], Tensor]:
    """The largest score along these dimensions is taken off all."""

    def normalise(s: Steps) -> Tensor:
        exponentials = (s.masked - s.masked.amax(dim=dims, keepdim=True)).exp()
        return exponentials / exponentials.sum(dim=-1, keepdim=True)

    return normalise


def divided_by_column_sums(s: Steps) -> Tensor:
    """Row sums without keepdim: column j is divided by the sum of row j."""
    kept = torch.softmax(s.scores, dim=-1)
    kept = kept if s.visible is None else kept * s.visible
    return kept / kept.sum(dim=-1).unsqueeze(-2)


# ------------------------------------------------------------------------------------------ use


def hidden_zeroed(s: Steps) -> Tensor:
    return s.weights if s.visible is None else s.weights * s.visible


def hidden_zeroed_and_renormalised(s: Steps) -> Tensor:
    if s.visible is None:
        return s.weights
    kept = s.weights * s.visible
    return kept / kept.sum(dim=-1, keepdim=True)


def weights_scaled(s: Steps) -> Tensor:
    return s.weights * s.given.scale


def no_nan(s: Steps) -> Tensor:
    return s.weights.nan_to_num(neginf=0.0)


def weights_of_first_head(s: Steps) -> Tensor:
    return first_head(s.weights)


def each_to_itself(s: Steps) -> Tensor:
    return torch.eye(s.given.tokens, dtype=s.raw.dtype).expand(s.weights.shape)


def zeros(s: Steps) -> Tensor:
    return torch.zeros_like(s.weights)
