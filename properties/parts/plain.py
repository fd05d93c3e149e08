"""The parameters of plain attention: three projections, their biases, and an output layer."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from headcheck.properties.parts.weight import Draws, HeadSizes, Weight, d_in, heads, kv_heads

if TYPE_CHECKING:
    from torch import Tensor

PROJECTIONS = ("W_q", "W_k", "W_v")
BIASES = ("b_q", "b_k", "b_v")


def _read(sizes: HeadSizes) -> int:
    """Return the width of what keys and values are made of: a token, its latent, or a context."""
    return sizes.d_latent or sizes.d_context or sizes.d_in


def _draw_query(draws: Draws) -> Tensor:
    return draws.matrix("W_q", draws.case.d_out, draws.case.d_in, draws.spread)


def _draw_shared(name: str, *, is_compared: bool) -> Callable[[Draws], Tensor]:
    def draw(draws: Draws) -> Tensor:
        case = draws.case
        rows, factor = case.kv_heads * case.head_dim, draws.spread if is_compared else 1.0
        return draws.matrix(name, rows, case.d_latent or case.d_in, factor)

    return draw


def _draw_bias(name: str) -> Callable[[Draws], Tensor]:
    def draw(draws: Draws) -> Tensor:
        heads = draws.case.kv_heads if name[-1] in "kv" else draws.case.heads
        return draws.vector(name, heads * draws.case.head_dim) / 2

    return draw


PLAIN_WEIGHTS = (
    Weight("W_q", 1, _draw_query, heads, columns=d_in, needs=PROJECTIONS, words="queries"),
    Weight(
        "W_k",
        2,
        _draw_shared("W_k", is_compared=True),
        kv_heads,
        columns=_read,
        needs=PROJECTIONS,
        words="keys",
    ),
    Weight(
        "W_v", 3, _draw_shared("W_v", is_compared=False), kv_heads, columns=_read, words="values"
    ),
    Weight("b_q", 4, _draw_bias("b_q"), heads, needs=("b_v",)),
    Weight("b_k", 5, _draw_bias("b_k"), kv_heads, needs=BIASES),
    Weight("b_v", 6, _draw_bias("b_v"), kv_heads),
    Weight(
        "W_o",
        7,
        lambda draws: draws.matrix("W_o", draws.case.d_out, draws.case.d_out),
        columns=lambda sizes: sizes.d_out,
        words="the output layer",
    ),
    Weight("b_o", 8, _draw_bias("b_o"), needs=("W_o",)),
)
