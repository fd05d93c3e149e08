"""The rounding of dtypes, and what the errors of an attention depend on."""

from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from headcheck.reference import PLAIN, MultiHeadResult, Parameters, Variant


@dataclass(frozen=True, slots=True)
class Precision:
    """The rounding of one dtype: unit roundoff and smallest normal number."""

    u: float
    tiny: float
    underflow: float
    """the absolute error of a product that is too small to be a normal number"""

    @property
    def ua(self) -> float:
        """The unit roundoff of accumulation, which is in float32 or better for every dtype."""
        return min(self.u, 2.0**-24)


PRECISIONS = {
    "float64": Precision(2.0**-53, 0.0, 2.0**-1022),
    "float32": Precision(2.0**-24, 2.0**-126, 2.0**-126),
    "bfloat16": Precision(2.0**-8, 2.0**-126, 2.0**-126),
    "float16": Precision(2.0**-11, 2.0**-14, 2.0**-24),
}


@dataclass(frozen=True, slots=True, eq=False)
class RoundedAttention:
    """What the errors of an attention depend on: what it is given, and the exact results."""

    x: Tensor
    p: Parameters
    exact: MultiHeadResult
    scale: float
    precision: Precision
    may_attend: Tensor | None
    others: Sequence[Tensor] = ()
    """the tokens of keys and values if these differ from x: one tensor for both, or two"""
    variant: Variant = PLAIN
    error: Tensor | None = None
    """the error of the tokens, if these are themselves computed, as in a block"""

    @property
    def read(self) -> tuple[Tensor, Tensor]:
        """The tokens of keys and those of values."""
        return (self.others[0], self.others[-1]) if self.others else (self.x, self.x)
