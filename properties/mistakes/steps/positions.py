"""Faulty steps for rotation by positions, bias by distances, and limits of scores."""

from collections.abc import Callable
from dataclasses import asdict, dataclass, replace

import torch
from torch import Tensor

from headcheck.properties.mistakes.pipeline import (
    PipelineState,
    QKVTensors,
    merge_heads,
    place_by,
    split_heads,
)
from headcheck.reference import RotaryScaling

Angles = Callable[[PipelineState, Tensor], Tensor]
"""returns the angle by which each pair of coordinates of queries or keys rotates at each token"""
Turn = Callable[[Tensor, Tensor], Tensor]
"""rotates pairs of columns by angles of shape (…, tokens, pairs)"""
Rotate = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Tensor]]
"""returns both columns of a pair, given them, the cosine and the sine of the angle"""
Stretch = Callable[[RotaryScaling, Tensor, float], Tensor]
"""scales the frequencies of all pairs, given the base"""
Slopes = Callable[[PipelineState, Tensor], Tensor]
"""returns the slope of each head's scores per token, given the heads' numbers 1, 2, …"""

# ------------------------------------------------------------------------------------- turning


def turned_by(rotate: Rotate) -> Turn:
    """Rotate column i with column i + d/2 by another function of both, the cosine and the sine."""

    def turn(t: Tensor, angle: Tensor) -> Tensor:
        a, b = t.chunk(2, dim=-1)
        return torch.cat(rotate(a, b, angle.cos(), angle.sin()), dim=-1)

    return turn


turn_halves = turned_by(lambda a, b, cos, sin: (a * cos - b * sin, b * cos + a * sin))
"""rotates column i with column i + d/2, as the statement asks"""


def turn_neighbours(t: Tensor, angle: Tensor) -> Tensor:
    """Rotate column 2i with column 2i + 1."""
    a, b, cos, sin = t[..., 0::2], t[..., 1::2], angle.cos(), angle.sin()
    return torch.stack([a * cos - b * sin, b * cos + a * sin], dim=-1).flatten(-2)


def turn_halves_by_doubled_angles(t: Tensor, angle: Tensor) -> Tensor:
    """Pair halves, but lay out sines and cosines for neighbours (θ0 θ0 θ1 θ1)."""
    (a, b), spread = t.chunk(2, dim=-1), angle.repeat_interleave(2, dim=-1)
    return t * spread.cos() + torch.cat([-b, a], dim=-1) * spread.sin()


def turn_neighbours_by_repeated_angles(t: Tensor, angle: Tensor) -> Tensor:
    """Pair neighbours, but lay out sines and cosines for halves (θ0 θ1 θ0 θ1)."""
    spread = torch.cat([angle, angle], dim=-1)
    swapped = torch.stack([-t[..., 1::2], t[..., 0::2]], dim=-1).flatten(-2)
    return t * spread.cos() + swapped * spread.sin()


def second_of_turned_first(t: Tensor, angle: Tensor) -> Tensor:
    (a, b), cos, sin = t.chunk(2, dim=-1), angle.cos(), angle.sin()
    turned = a * cos - b * sin
    return torch.cat([turned, b * cos + turned * sin], dim=-1)


without_negative_sine = turned_by(lambda a, b, cos, sin: (a * cos + b * sin, b * cos + a * sin))
with_two_negative_sines = turned_by(lambda a, b, cos, sin: (a * cos - b * sin, b * cos - a * sin))
without_swap = turned_by(lambda a, b, cos, sin: (a * cos - a * sin, b * cos + b * sin))
exchange = turned_by(lambda a, b, cos, sin: (a * sin - b * cos, b * sin + a * cos))
"""rotates with the sine where the cosine should be, and the other way round"""
exchanged_in_first_half = turned_by(lambda a, b, cos, sin: (a * sin - b * cos, b * cos + a * sin))
exchanged_in_second_half = turned_by(lambda a, b, cos, sin: (a * cos - b * sin, b * sin + a * cos))


def angles_of(
    exponent: Callable[[PipelineState, Tensor], Tensor], base: float | None = None
) -> Angles:
    """Rotate pair i by base^-exponent radians a token; None means the statement's base.

    The frequencies are then scaled, if the statement says so.
    """

    def compute(s: PipelineState, t: Tensor) -> Tensor:
        pair = torch.arange(t.shape[-1] // 2, dtype=t.dtype, device=t.device)
        position = torch.arange(t.shape[-2], dtype=t.dtype, device=t.device)
        own, scaling = base or s.inputs.variant.base, s.inputs.variant.scaling
        frequencies: Tensor = own ** -exponent(s, pair)
        return position[:, None] * (scaling.stretch(frequencies, own) if scaling else frequencies)

    return compute


def right_exponent(s: PipelineState, pair: Tensor) -> Tensor:
    return pair / len(pair)  # 2i/d of d columns that are turned


right_angles = angles_of(right_exponent)


def placed(
    query: float = 1,
    key: float = 1,
    value: float = 0,
    *,
    turn: Turn = turn_halves,
    angles: Angles = right_angles,
) -> Callable[[PipelineState], QKVTensors]:
    """Rotate queries, keys and values by these multiples of the angles.

    Raises RuntimeError for an odd width.
    """

    def scaled(times: float) -> Angles:
        return lambda s, t: times * angles(s, t)

    def place(s: PipelineState) -> QKVTensors:
        q, k, v = (
            turn_part(s, t, turn, scaled(times)) if times else t
            for t, times in zip(s.appended, (query, key, value), strict=True)
        )
        return q, k, v

    return place


def get_factor(s: PipelineState) -> float:
    """Return the factor of cosines and sines."""
    return s.inputs.variant.scaling.attention_factor if s.inputs.variant.scaling else 1.0


def turn_pairs(s: PipelineState, t: Tensor, angle: Tensor, turn: Turn = turn_halves) -> Tensor:
    """Rotate halves; if the statement asks for neighbours, they are laid out as halves for this."""
    if not s.inputs.variant.neighbours:
        return turn(t, angle)
    turned = turn(torch.cat([t[..., 0::2], t[..., 1::2]], dim=-1), angle)
    return torch.stack(turned.chunk(2, dim=-1), dim=-1).flatten(-2)


def turn_part(s: PipelineState, t: Tensor, turn: Turn, angles: Angles) -> Tensor:
    """Rotate the rotating part of queries, keys or values, and leave the rest unchanged."""
    start, stop = _find_turned(s, t)
    own = t[..., start:stop]
    turned = get_factor(s) * turn_pairs(s, own, angles(s, own), turn)
    rest = t[..., :start], t[..., stop:]
    return torch.cat([rest[0], turned, rest[1]], dim=-1) if stop - start < t.shape[-1] else turned


def _find_turned(s: PipelineState, t: Tensor) -> tuple[int, int]:
    """Return the first and last rotating column of queries, keys or values.

    Values have no rotating part, so with latents this mistake rotates all their pairs.
    """
    width, count = t.shape[-1], s.inputs.variant.count_turned(s.appended[0])
    if not s.inputs.variant.beside:
        return 0, count
    return (width - count, width) if width == s.inputs.width else (0, width - width % 2)


def exchanged_in(
    *, query: bool = False, key: bool = False
) -> Callable[[PipelineState], QKVTensors]:
    """Exchange sines and cosines in the rotation of queries or keys."""

    def place(s: PipelineState) -> QKVTensors:
        q, k, v = s.appended
        asked, found = (
            turn_part(s, t, exchange if exchanged else turn_halves, right_angles)
            for t, exchanged in ((q, query), (k, key))
        )
        return asked, found, v

    return place


def placed_before_split(turn: Turn) -> Callable[[PipelineState], QKVTensors]:
    """Rotate the whole width of queries and keys, by the angles of a head of this width."""
    angles = angles_of(lambda s, pair: 2 * pair / s.inputs.d_out)

    def place(s: PipelineState) -> QKVTensors:
        wide = [merge_heads(t) for t in s.appended[:2]]
        turned = (get_factor(s) * turn(t, angles(s, t)) for t in wide)
        q, k = (split_heads(t, s.inputs.heads) for t in turned)
        return q, k, s.appended[2]

    return place


# ------------------------------------------------------------------------------------- scaling


def scaled_by(
    stretch: Stretch = RotaryScaling.stretch,
    query: Callable[[RotaryScaling], float] = lambda scaling: scaling.attention_factor,
    key: Callable[[RotaryScaling], float] = lambda scaling: scaling.attention_factor,
) -> Callable[[PipelineState], QKVTensors]:
    """Scale frequencies by a function, and multiply rotated queries and keys by these factors."""

    def place(s: PipelineState) -> QKVTensors:
        variant, scaling = s.inputs.variant, s.inputs.variant.scaling
        if scaling is None:
            raise ValueError("frequencies are not scaled")
        q, k = (
            place_by(s, t, replace(variant, scaling=_stretch_by(scaling, stretch, factor(scaling))))
            for t, factor in zip(s.appended[:2], (query, key), strict=True)
        )
        return q, k, s.appended[2]

    return place


@dataclass(frozen=True, slots=True)
class _Stretched(RotaryScaling):
    """A scaling with another function of frequencies."""

    by: Stretch = RotaryScaling.stretch

    def stretch(self, frequencies: Tensor, base: float) -> Tensor:
        return self.by(self, frequencies, base)


def _stretch_by(scaling: RotaryScaling, stretch: Stretch, factor: float) -> RotaryScaling:
    return _Stretched(**asdict(scaling) | {"attention_factor": factor}, by=stretch)


def change(**others: Callable[[RotaryScaling], object]) -> Stretch:
    """Scale frequencies with other numbers."""

    def stretch(scaling: RotaryScaling, frequencies: Tensor, base: float) -> Tensor:
        changed = {name: compute(scaling) for name, compute in others.items()}
        other = replace(scaling, **changed)  # type: ignore[arg-type]  # as the fields
        return RotaryScaling.stretch(other, frequencies, base)

    return stretch


def keep(share: Callable[[Tensor], Tensor]) -> Stretch:
    """Keep another share of frequencies, which is a function of the right share."""

    def stretch(scaling: RotaryScaling, frequencies: Tensor, base: float) -> Tensor:
        kept = scaling.find_kept(frequencies, base).clamp(0, 1)
        return scaling.blend(frequencies, share(kept))

    return stretch


def keep_only_between(kept: Tensor) -> Tensor:
    """Exchange what is kept and what is divided, but not the blend between."""
    return torch.where((kept > 0) & (kept < 1), kept, 1 - kept)


def reverse_between(kept: Tensor) -> Tensor:
    """Reverse the blend between what is kept and what is divided."""
    return torch.where((kept > 0) & (kept < 1), 1 - kept, kept)


def with_base_times_factor(scaling: RotaryScaling, frequencies: Tensor, base: float) -> Tensor:
    """Multiply the base by the factor itself."""
    pair = torch.arange(len(frequencies), dtype=frequencies.dtype, device=frequencies.device)
    return frequencies * scaling.factor ** (-pair / len(pair))


# ------------------------------------------------------------------------------------ lowering


def _count_back(s: PipelineState) -> Tensor:
    """Return how far each key precedes each query; 0 for later keys, as the statement says."""
    queries, keys = s.raw_scores.shape[-2:]
    position = torch.arange(keys, dtype=s.raw_scores.dtype, device=s.raw_scores.device)
    return (position[keys - queries :, None] - position).clamp_min(0)


def right_slopes(s: PipelineState, head: Tensor) -> Tensor:
    return 2 ** (-8 * head / s.inputs.heads)


def slopes_of_two_sequences(s: PipelineState, head: Tensor) -> Tensor:
    """Return the slopes of the paper's code: of a power of two, then every other of its double."""
    heads = s.inputs.heads
    power = 1 << (heads.bit_length() - 1)
    own, more = head[:power], head[: heads - power]
    return torch.cat([2 ** (-8 * own / power), 2 ** (-8 * (2 * more - 1) / (2 * power))])


def _penalise(s: PipelineState, slopes: Slopes, distance: Tensor) -> Tensor:
    head = torch.arange(1, s.inputs.heads + 1, dtype=distance.dtype, device=distance.device)
    return slopes(s, head)[:, None, None] * distance


def lowered_by(
    slopes: Slopes = right_slopes, distance: Callable[[Tensor], Tensor] = lambda d: d
) -> Callable[[PipelineState], Tensor]:
    """Lower each score by the slope of its head times a function of the distance."""
    return lambda s: s.scaled - _penalise(s, slopes, distance(_count_back(s)))


def lowered_before_scaling(s: PipelineState) -> Tensor:
    return (s.raw_scores - _penalise(s, right_slopes, _count_back(s))) * s.inputs.scale


def multiplied_by_distance(s: PipelineState) -> Tensor:
    return s.scaled * -_penalise(s, right_slopes, _count_back(s))


def weights_lowered(s: PipelineState) -> Tensor:
    """Subtract the bias of the scores from the weights."""
    lowered = s.weights - _penalise(s, right_slopes, _count_back(s))
    return lowered if s.visible is None else lowered.masked_fill(~s.visible, 0.0)


def unadjusted(s: PipelineState) -> Tensor:
    return s.scaled


# ------------------------------------------------------------------------------------ limiting


def limited(limit: Callable[[Tensor, float], Tensor]) -> Callable[[PipelineState], Tensor]:
    """Limit scores by a function of the scores and the limit."""
    return lambda s: limit(s.scaled, s.inputs.variant.softcap)


def softcap(t: Tensor, limit: float) -> Tensor:
    return limit * torch.tanh(t / limit)


def limited_before_scaling(s: PipelineState) -> Tensor:
    return softcap(s.raw_scores, s.inputs.variant.softcap) * s.inputs.scale


def limited_after_masking(s: PipelineState) -> Tensor:
    """Limit the scores after hidden scores became −∞."""
    limit = s.inputs.variant.softcap
    return s.scores if s.visible is None else s.scores.masked_fill(~s.visible, -limit)


def weights_limited(s: PipelineState) -> Tensor:
    return softcap(s.weights, s.inputs.variant.softcap)


def queries_and_keys_limited(s: PipelineState) -> Tensor:
    limit = s.inputs.variant.softcap
    return softcap(s.query, limit) @ softcap(s.key, limit).mT
