"""The evidence for the bounds of positions and limits: right algorithms stay within, wrong do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. In float64 the
oracle, which is no more exact itself, adds its own error. The largest ratio of an output is 0.11,
of a gradient 1.3 (an outlier, limited to 0.5, in bfloat16).
"""

import itertools
from collections.abc import Callable, Mapping
from dataclasses import replace

import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters
from tests.properties.evidence import (
    ODD_SIZES,
    SIZES,
    Evidence,
    finish,
    hide,
    project,
    scale,
    spreading,
    widen,
)

Scores = Callable[[Tensor, Tensor, float], Tensor]
"""scaled scores of queries and keys, (batch, heads, tokens, head_dim), with a limit"""


# ------------------------------------------------------------------------------------- rotary


def powers(half: int, dtype: torch.dtype) -> Tensor:
    return 10_000.0 ** (-torch.arange(half, dtype=dtype) / half)


def reciprocals(half: int, dtype: torch.dtype) -> Tensor:
    return 1.0 / (10_000.0 ** (torch.arange(0, 2 * half, 2, dtype=dtype) / (2 * half)))


def exponentials(half: int, dtype: torch.dtype) -> Tensor:
    rate = torch.tensor(1e4, dtype=dtype).log() / half
    return torch.exp(torch.arange(half, dtype=dtype) * -rate)


def rounded_once(half: int, dtype: torch.dtype) -> Tensor:
    return torch.tensor([10_000 ** (-i / half) for i in range(half)], dtype=dtype)


def turn(t: Tensor, speeds: Callable[[int, torch.dtype], Tensor], first: int = 0) -> Tensor:
    position = torch.arange(first, first + t.shape[-2], dtype=widen(t))
    angle = position[:, None] * speeds(t.shape[-1] // 2, widen(t))
    cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
    a, b = t.chunk(2, dim=-1)
    return torch.cat([a * cos - b * sin, b * cos + a * sin], dim=-1)


def turn_complex(t: Tensor) -> Tensor:
    angle = torch.arange(t.shape[-2], dtype=widen(t))[:, None] * powers(t.shape[-1] // 2, widen(t))
    a, b = t.to(widen(t)).chunk(2, dim=-1)
    turned = torch.complex(a, b) * torch.polar(torch.ones_like(angle), angle)
    return torch.cat([turned.real, turned.imag], dim=-1).to(t.dtype)


def turn_keys_alone(q: Tensor, k: Tensor, limit: float) -> Tensor:
    rows = [scale(q[..., i, None, :], turn(k, powers, -i)) for i in range(q.shape[-2])]
    return torch.cat(rows, dim=-2)


def turn_by(speeds: Callable[[int, torch.dtype], Tensor]) -> Scores:
    return lambda q, k, _: scale(turn(q, speeds), turn(k, speeds))


ROTARY: dict[str, Scores] = {
    "powers": turn_by(powers),
    "reciprocals": turn_by(reciprocals),
    "exponentials": turn_by(exponentials),
    "rounded once": turn_by(rounded_once),
    "counted from the end": lambda q, k, _: scale(
        turn(q, powers, -q.shape[-2]), turn(k, powers, -q.shape[-2])
    ),
    "complex numbers": lambda q, k, _: scale(turn_complex(q), turn_complex(k)),
    "keys alone": turn_keys_alone,
}
WRONG_ROTARY: dict[str, Scores] = {
    "none": lambda q, k, _: scale(q, k),
    "queries alone": lambda q, k, _: scale(turn(q, powers), k),
    "backwards": lambda q, k, _: scale(turn(q.flip(-1), powers), turn(k.flip(-1), powers)),
    "one later": lambda q, k, _: scale(turn(q, powers, 1), turn(k, powers)),
}

# -------------------------------------------------------------------------------------- alibi


def slopes(heads: int, dtype: torch.dtype) -> Tensor:
    return (2 ** (-8 * torch.arange(1, heads + 1, dtype=dtype) / heads))[:, None, None]


def count_back(t: Tensor) -> Tensor:
    position = torch.arange(t.shape[-2])
    return position[:, None] - position


def slope_back(q: Tensor, first: int = 0) -> Tensor:
    """How much every score is lowered."""
    return slopes(q.shape[1], widen(q)) * (count_back(q) + first)


def lower(q: Tensor, k: Tensor, by: Tensor) -> Tensor:
    return scale(q, k) - by.to(q.dtype)


def raise_by_keys(q: Tensor, k: Tensor, limit: float) -> Tensor:
    position = torch.arange(k.shape[-2], dtype=widen(q))
    return scale(q, k).to(widen(q)) + slopes(q.shape[1], widen(q)) * position


def powers_of_a_ratio(q: Tensor, k: Tensor, limit: float) -> Tensor:
    ratio = 2 ** (-8 / q.shape[1])
    own = torch.tensor([ratio ** (h + 1) for h in range(q.shape[1])], dtype=widen(q))
    return lower(q, k, own[:, None, None] * count_back(q))


ALIBI: dict[str, Scores] = {
    "distances": lambda q, k, _: lower(q, k, slope_back(q)),
    "from one": lambda q, k, _: lower(q, k, slope_back(q, first=1)),
    "powers of a ratio": powers_of_a_ratio,
    "by the key": raise_by_keys,
}
WRONG_ALIBI: dict[str, Scores] = {
    "none": lambda q, k, _: scale(q, k),
    "raised": lambda q, k, _: lower(q, k, -slope_back(q)),
    "heads from zero": lambda q, k, _: lower(q, k, slope_back(q) * 2 ** (8 / q.shape[1])),
    "scaled": lambda q, k, _: lower(q, k, slope_back(q) / q.shape[-1] ** 0.5),
}

# ------------------------------------------------------------------------------------- softcap


def limit_in_float32(q: Tensor, k: Tensor, limit: float) -> Tensor:
    scores = scale(q.to(widen(q)), k.to(widen(q)))
    return (limit * torch.tanh(scores / limit)).to(q.dtype)


SOFTCAP: dict[str, Scores] = {
    "tanh": lambda q, k, c: c * torch.tanh(scale(q, k) / c),
    "multiplied by the inverse": lambda q, k, c: torch.tanh(scale(q, k) * (1 / c)) * c,
    "one divisor": lambda q, k, c: c * torch.tanh(q @ k.mT / (c * q.shape[-1] ** 0.5)),
    "queries divided": lambda q, k, c: c * torch.tanh(scale(q / c, k)),
    "in float32": limit_in_float32,
}
WRONG_SOFTCAP: dict[str, Scores] = {
    "none": lambda q, k, _: scale(q, k),
    "clamped": lambda q, k, c: scale(q, k).clamp(-c, c),
    "not multiplied": lambda q, k, c: torch.tanh(scale(q, k) / c),
    "not divided": lambda q, k, c: c * torch.tanh(scale(q, k)),
}


def attend(x: Tensor, p: Parameters, case: Case, compute: Scores) -> Tensor:
    q, k, v = project(x, p, case.heads)
    weights = hide(compute(q, k, case.softcap)).softmax(-1)
    return finish(weights.to(v.dtype) @ v, p)


def gather(
    slug: str, right: Mapping[str, Scores], wrong: Mapping[str, Scores], sizes: tuple[Case, ...]
) -> Evidence[Scores]:
    contract = BY_SLUG[slug].contract
    return Evidence(
        contract,
        right,
        wrong,
        draw=spreading(contract),
        attend=attend,
        spreads=(1.0,),
        sizes=sizes,
        sharpness=(1, 8, 64),
        # Where scores are sharp, all weight may go to one key, rightly or wrongly.
        share=2 / 3,
    )


LIMITED = tuple(
    replace(size, softcap=limit) for size, limit in itertools.product(ODD_SIZES, (2.0, 30.0, 0.5))
)
BY_ROTATION = gather("rope", ROTARY, WRONG_ROTARY, SIZES)
BY_DISTANCE = gather("alibi", ALIBI, WRONG_ALIBI, ODD_SIZES)
SOFTCAPPED = gather("softcap", SOFTCAP, WRONG_SOFTCAP, LIMITED)
