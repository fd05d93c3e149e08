"""A transformer block: attention and a feed-forward, each behind a norm and beside a residual.

    h = x + Attention(Norm(x))    y = h + W_2 GELU(W_1 Norm(h) + b_1) + b_2

Sources: Vaswani et al. 2017, sections 3.1 and 3.3 (arXiv:1706.03762), whose norms come after the
residuals; Radford et al. 2019 (GPT-2), section 2.3, where they come before, and a GELU takes the
place of the ReLU (Hendrycks & Gimpel 2016, arXiv:1606.08415).
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from headcheck.reference.attention import linear
from headcheck.reference.multi_head import MultiHeadResult, Parameters, multi_head_attention
from headcheck.reference.variant import PLAIN, BlockSteps, Variant

CUBE = 0.044715
"""the factor of the cube in the approximation of GELU by tanh"""


@dataclass(frozen=True, eq=False)
class BlockResult:
    """All intermediate results of a block, and its output."""

    entered: Float[Tensor, "*batch tokens d_in"]
    """the normed tokens, which attention reads"""
    attention: MultiHeadResult
    added: Float[Tensor, "*batch tokens d_in"]
    """the tokens plus the output of attention"""
    normed: Float[Tensor, "*batch tokens d_in"]
    """the normed tokens that the feed-forward reads"""
    hidden: Float[Tensor, "*batch tokens d_hidden"]
    """the output of the feed-forward's first layer, before the activation"""
    active: Float[Tensor, "*batch tokens d_hidden"]
    forwarded: Float[Tensor, "*batch tokens d_in"]
    """the output of the feed-forward, before the residual"""
    output: Float[Tensor, "*batch tokens d_in"]


def transformer_block(
    x: Float[Tensor, "*batch tokens d_in"],
    p: Parameters,
    heads: int,
    may_attend: Bool[Tensor, "*#batch #tokens #tokens"] | None = None,
    scale: float | None = None,
    variant: Variant = PLAIN,
) -> BlockResult:
    """Add attention of the normed tokens to the tokens, then a feed-forward of the normed sums.

    Raises ValueError if the variant has no block or the parameters have no feed-forward.
    """
    steps = variant.block
    if steps is None or p.W_1 is None or p.W_2 is None:
        raise ValueError("transformer_block: give W_1, W_2 and a variant with a block")
    entered = enter_block(x, p, variant)
    attention = multi_head_attention(entered, p, heads, may_attend, scale, variant=variant)
    added = x + attention.output
    normed = steps.norms.normalise(added, p.gain_ff, p.shift_ff)
    hidden = linear(normed, p.W_1, p.b_1)
    active = activate(hidden, steps)
    forwarded = linear(active, p.W_2, p.b_2)
    output = added + forwarded
    return BlockResult(entered, attention, added, normed, hidden, active, forwarded, output)


def enter_block(
    x: Float[Tensor, "*batch tokens d_in"], p: Parameters, variant: Variant
) -> Float[Tensor, "*batch tokens d_in"]:
    """Return the input of attention: the normed tokens in a block, else the tokens themselves."""
    return x if variant.block is None else variant.block.norms.normalise(x, p.gain_in, p.shift_in)


def activate(t: Float[Tensor, "*batch d"], steps: BlockSteps) -> Float[Tensor, "*batch d"]:
    """Return x Φ(x) of each number, where Φ is the normal distribution function or near it."""
    return gelu_by_tanh(t) if steps.activation == "gelu_tanh" else gelu(t)


def gelu(t: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Return x Φ(x), with the error function. Source: Hendrycks & Gimpel 2016, section 2."""
    return t * (0.5 * torch.erfc(-t / math.sqrt(2)))


def gelu_by_tanh(t: Float[Tensor, "*batch d"]) -> Float[Tensor, "*batch d"]:
    """Return x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2, the approximation in the same section."""
    return t * (0.5 * (1 + torch.tanh(math.sqrt(2 / math.pi) * (t + CUBE * t**3))))
