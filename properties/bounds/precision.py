"""The rounding of dtypes."""

from dataclasses import dataclass


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
