"""Error bounds of a block, and of its gradients, from absolute values.

As in `properties.bounds.absolute_roles`, the rounding errors of a correct implementation are
proportional to sums of absolute values. The input of each step is bounded by the bounds of the
steps before it, even if numbers cancel in these steps.
"""

from dataclasses import dataclass

from torch import Tensor

from headcheck.properties.bounds.absolute_roles import bound_roles
from headcheck.properties.bounds.block import BEND, STEEPEST
from headcheck.properties.bounds.layers import Scales, bound_layer
from headcheck.properties.bounds.norms import AbsoluteNorm, make_absolute_norm
from headcheck.reference import BlockResult, Parameters, Variant, linear, merge_heads


@dataclass(frozen=True, eq=False)
class AbsoluteBlock:
    """The bounds of each step of a block, and its norms."""

    entered: Tensor
    normed: Tensor
    hidden: Tensor
    output: Tensor
    norm_in: AbsoluteNorm
    norm_ff: AbsoluteNorm


def make_absolute_block(
    x: Tensor, parameters: Parameters, exact: BlockResult, variant: Variant
) -> AbsoluteBlock:
    """Bound all steps of a block by the absolute values of all numbers."""
    raw, p, steps = parameters, parameters.map(lambda t: t.detach().abs()), variant.block
    assert steps is not None and p.W_1 is not None and p.W_2 is not None and p.W_o is not None
    norm_in = make_absolute_norm(x.abs(), x, raw.gain_in, raw.shift_in, steps.norms)
    assert norm_in is not None, "a block norms its tokens"
    entered = norm_in.apply()
    _, _, value, _ = bound_roles(entered, parameters, exact.attention, variant)
    merged = merge_heads(exact.attention.weights.detach() @ value)
    added = x.abs() + linear(merged, p.W_o, p.b_o)
    before = exact.added.detach()
    norm_ff = make_absolute_norm(added, before, raw.gain_ff, raw.shift_ff, steps.norms)
    assert norm_ff is not None, "a block norms its tokens"
    normed = norm_ff.apply()
    hidden = linear(normed, p.W_1, p.b_1)  # an activation makes no number larger
    output = added + linear(hidden, p.W_2, p.b_2)
    return AbsoluteBlock(entered, normed, hidden, output, norm_in, norm_ff)


def leave_feed_forward(
    block: AbsoluteBlock, parameters: Parameters, grad: Tensor
) -> tuple[Tensor, Scales]:
    """Propagate gradients back from the output of a block to the sum of attention and residual.

    An error before the activation also changes the slope of the activation, so it counts here.
    """
    p = parameters.map(lambda t: t.detach().abs())
    assert p.W_1 is not None and p.W_2 is not None, "there is a feed-forward"
    scales = bound_layer("2", grad, block.hidden)
    inner = (grad @ p.W_2) * (STEEPEST + BEND * block.hidden)
    scales |= bound_layer("1", inner, block.normed)
    normed = inner @ p.W_1
    scales |= block.norm_ff.bound_own("ff", normed)
    return grad + block.norm_ff.pull_back(normed), scales


def leave_norm_of_tokens(
    block: AbsoluteBlock, entered: Tensor, beside: Tensor
) -> tuple[Tensor, Scales]:
    """Propagate gradients back from the input of attention and from its residual to the tokens."""
    scales = block.norm_in.bound_own("in", entered)
    return beside + block.norm_in.pull_back(entered), scales
