"""The affine map that computes every projection of attention."""

from jaxtyping import Float
from torch import Tensor


def linear(
    x: Float[Tensor, "*batch d_in"],
    weight: Float[Tensor, "d_out d_in"],
    bias: Float[Tensor, "d_out"] | None = None,
) -> Float[Tensor, "*batch d_out"]:
    """Multiply every row of x by the transposed weight and add the bias: x Wᵀ + b.

    The weight is stored (out, in), the convention of ``torch.nn.Linear``.
    """
    product = x @ weight.mT
    return product if bias is None else product + bias
