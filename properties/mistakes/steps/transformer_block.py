"""Faulty steps around attention: norms of tokens, residuals, and the feed-forward of a block."""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    PipelineState,
    QKVTensors,
    StepOverrides,
    first_layer,
    get_block,
    linear,
    map_qkv,
    norm_tokens,
    second_layer,
)
from headcheck.reference import activate, gelu, gelu_by_tanh

Function = Callable[[Tensor], Tensor]
OneStep = Callable[[PipelineState], Tensor]
Norm = Callable[[PipelineState, Tensor, Tensor | None, Tensor | None], Tensor]
"""normalises tokens, with a gain and a shift"""


# --------------------------------------------------------------------------------------- norms


def with_norm(
    norm: Norm, *, first: bool = True, second: bool = True, exchanged: bool = False
) -> StepOverrides:
    """Return the overrides that compute one norm, or both, by another function."""

    def enter(s: PipelineState) -> QKVTensors:
        get_block(s)
        gain, shift = (s.p.gain_ff, s.p.shift_ff) if exchanged else (s.p.gain_in, s.p.shift_in)
        return map_qkv(lambda t: norm(s, t, gain, shift), s.seen)

    def renorm(s: PipelineState) -> Tensor:
        get_block(s)
        gain, shift = (s.p.gain_in, s.p.shift_in) if exchanged else (s.p.gain_ff, s.p.shift_ff)
        return norm(s, s.added, gain, shift)

    steps: dict[str, Callable[[PipelineState], object]] = {"enter": enter, "renorm": renorm}
    return {name: steps[name] for name, asked in zip(steps, (first, second), strict=True) if asked}


def for_both_or_one(norm: Norm) -> tuple[StepOverrides, ...]:
    """Return the variants in which both norms are wrong, or only one of them."""
    return with_norm(norm), with_norm(norm, second=False), with_norm(norm, first=False)


def left_out(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    return t


def scale_and_shift(t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    t = t if gain is None else t * gain
    return t if shift is None else t + shift


def with_epsilon(epsilon: float) -> Norm:
    """Add another number to the variance."""

    def norm(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        if epsilon == get_block(s).epsilon:
            raise ValueError("this is what is asked for")
        return replace(get_block(s), epsilon=epsilon).norms.normalise(t, gain, shift)

    return norm


def of_kind(kind: str) -> Norm:
    """Normalise by the other kind of norm."""

    def norm(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        if kind == get_block(s).norm:
            raise ValueError("this is what is asked for")
        return replace(get_block(s), norm=kind).norms.normalise(t, gain, shift)

    return norm


def layer_norm_by(normalise: Callable[[Tensor, float], Tensor]) -> Norm:
    """Normalise by a function of tokens and epsilon. Raises ValueError without a layer norm."""

    def norm(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
        if get_block(s).norm != "layer":
            raise ValueError("there is no variance")
        return scale_and_shift(normalise(t, get_block(s).epsilon), gain, shift)

    return norm


def over(*dims: int) -> Norm:
    """Take mean and variance over axes other than the last one."""

    def normalise(t: Tensor, epsilon: float) -> Tensor:
        centred = t - t.mean(dims, keepdim=True)
        return centred * torch.rsqrt(centred.square().mean(dims, keepdim=True) + epsilon)

    return layer_norm_by(normalise)


def _sum_squares(t: Tensor) -> tuple[Tensor, Tensor]:
    """Return centred tokens, and the sums of their squares."""
    centred = t - t.mean(-1, keepdim=True)
    return centred, centred.square().sum(-1, keepdim=True)


@layer_norm_by
def with_unbiased_variance(t: Tensor, epsilon: float) -> Tensor:
    if t.shape[-1] == 1:
        return torch.full_like(t, torch.nan)
    centred, squares = _sum_squares(t)
    return centred * torch.rsqrt(squares / (t.shape[-1] - 1) + epsilon)


def with_epsilon_outside(correction: int) -> Norm:
    """Add epsilon to the standard deviation instead of the variance."""

    def normalise(t: Tensor, epsilon: float) -> Tensor:
        left = t.shape[-1] - correction
        if not left:
            return torch.full_like(t, torch.nan)
        centred, squares = _sum_squares(t)
        return centred / ((squares / left).sqrt() + epsilon)

    return layer_norm_by(normalise)


@layer_norm_by
def uncentred(t: Tensor, epsilon: float) -> Tensor:
    """Divide by the root of the variance without subtracting the mean."""
    return t * torch.rsqrt((t - t.mean(-1, keepdim=True)).square().mean(-1, keepdim=True) + epsilon)


undivided = layer_norm_by(lambda t, epsilon: t - t.mean(-1, keepdim=True))
"""subtracts the mean without dividing"""


def without_root(s: PipelineState, t: Tensor, gain: Tensor | None, shift: Tensor | None) -> Tensor:
    norms = get_block(s).norms
    centred = t - t.mean(-1, keepdim=True) if norms.norm == "layer" else t
    return scale_and_shift(centred * norms.measure(centred).square(), gain, shift)


def first_norm_again(s: PipelineState) -> Tensor:
    return norm_tokens(s, s.added, s.p.gain_in, s.p.shift_in)


def second_norm_first(s: PipelineState) -> QKVTensors:
    return map_qkv(lambda t: norm_tokens(s, t, s.p.gain_ff, s.p.shift_ff), s.seen)


def normed_for(*which: int) -> Callable[[PipelineState], QKVTensors]:
    """Project only some of queries, keys and values from normed tokens."""

    def enter(s: PipelineState) -> QKVTensors:
        normed = CORRECT.enter(s)
        q, k, v = (normed[i] if i in which else s.seen[i] for i in range(3))
        return q, k, v

    return enter


def _tokens_as_seen(s: PipelineState) -> QKVTensors:
    get_block(s)
    return s.seen


def _sums_as_they_are(s: PipelineState) -> Tensor:
    get_block(s)
    return s.added


def _norm_sums_with(s: PipelineState, t: Tensor) -> Tensor:
    return norm_tokens(s, t, s.p.gain_ff, s.p.shift_ff)


AFTER_RESIDUALS: StepOverrides = {
    "enter": _tokens_as_seen,
    "add": lambda s: norm_tokens(s, s.seen[0] + s.attended, s.p.gain_in, s.p.shift_in),
    "renorm": _sums_as_they_are,
    "close": lambda s: _norm_sums_with(s, s.added + s.forwarded),
}
AFTER_PARTS: StepOverrides = {
    "enter": _tokens_as_seen,
    "add": lambda s: s.seen[0] + norm_tokens(s, s.attended, s.p.gain_in, s.p.shift_in),
    "renorm": _sums_as_they_are,
    "close": lambda s: s.added + _norm_sums_with(s, s.forwarded),
}


def normed_at_the_end(s: PipelineState) -> Tensor:
    return _norm_sums_with(s, CORRECT.close(s))


# ----------------------------------------------------------------------------------- residuals


def in_block(take: OneStep) -> OneStep:
    """Use this step in a block; attention outside a block has no such step."""

    def step(s: PipelineState) -> Tensor:
        get_block(s)
        return take(s)

    return step


attended_alone = in_block(lambda s: s.attended)
forwarded_alone = in_block(lambda s: s.forwarded)
added_to_normed_tokens = in_block(lambda s: s.entered[0] + s.attended)
added_to_normed_sums = in_block(lambda s: s.renormed + s.forwarded)
added_to_tokens = in_block(lambda s: s.seen[0] + s.forwarded)
tokens_added_again = in_block(lambda s: s.seen[0] + s.added + s.forwarded)
tokens_alone = in_block(lambda s: s.seen[0])
sums_alone = in_block(lambda s: s.added)
reads_attended = in_block(lambda s: _norm_sums_with(s, s.attended))
reads_tokens = in_block(lambda s: _norm_sums_with(s, s.seen[0]))
reads_normed_tokens = in_block(lambda s: s.entered[0])


# -------------------------------------------------------------------------------- feed-forward


def forward_first(*, exchanged: bool) -> StepOverrides:
    """Put the feed-forward before attention; each keeps its own norm, or they exchange norms."""

    def see(s: PipelineState) -> QKVTensors:
        get_block(s)
        x, own = s.inputs.x, s.copy()
        gains = (s.p.gain_in, s.p.shift_in) if exchanged else (s.p.gain_ff, s.p.shift_ff)
        own.renormed = norm_tokens(s, x, *gains)
        own.hidden = first_layer(own)
        own.active = CORRECT.activate(own)
        return (x + second_layer(own),) * 3

    overrides: dict[str, Callable[[PipelineState], object]] = {"see": see, "close": sums_alone}
    return {**overrides, "enter": second_norm_first} if exchanged else overrides


def with_activation(function: Function) -> OneStep:
    """Use another activation function."""
    return in_block(lambda s: function(s.hidden))


def by_tanh(s: PipelineState) -> Tensor:
    if get_block(s).activation == "gelu_tanh":
        raise ValueError("this is what is asked for")
    return gelu_by_tanh(s.hidden)


def by_error_function(s: PipelineState) -> Tensor:
    if get_block(s).activation == "gelu":
        raise ValueError("this is what is asked for")
    return gelu(s.hidden)


not_activated = in_block(lambda s: s.hidden)


def activated_last(s: PipelineState) -> Tensor:
    return activate(second_layer(s), get_block(s))


def activated_first(s: PipelineState) -> Tensor:
    activated = s.copy()
    activated.renormed = activate(s.renormed, get_block(s))
    return first_layer(activated)


def first_layer_without_bias(s: PipelineState) -> Tensor:
    return linear(s.renormed, _get(s.p.W_1, s.p.b_1))


def second_layer_without_bias(s: PipelineState) -> Tensor:
    return linear(s.active, _get(s.p.W_2, s.p.b_2))


def _get(weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if weight is None or bias is None:
        raise ValueError("there is no such layer, or it has no bias")
    return weight
