"""The tolerance of each element of an answer, computed only where it is needed.

A bound on rounding errors costs several times as much as the answer that it belongs to. Most right
answers are off by much less. So a tolerance has a `least`: a part of the bound that costs little.
An answer within this part is within the whole bound, which is then never computed.
"""

from collections.abc import Callable
from functools import cached_property

from torch import Tensor

Limits = tuple[Tensor, Tensor]
"""the limits in the dtype of a case, and in float32"""


class Tolerance:
    """The tolerance of each element, in the dtype of the case and in float32.

    An answer between the two limits computes internally in float32: this is a note, not a failure.
    """

    def __init__(self, exact: Tensor, float32: Tensor) -> None:
        self.least = exact
        self._compute: Callable[[], Limits] = lambda: (exact, float32)

    @classmethod
    def postpone(cls, least: Tensor, compute: Callable[[], Limits]) -> "Tolerance":
        """Return a tolerance that is computed when somebody asks for its limits.

        No element of `least` may be larger than its limit.
        """
        made = cls(least, least)
        made._compute = compute
        return made

    @cached_property
    def _limits(self) -> Limits:
        return self._compute()

    @property
    def exact(self) -> Tensor:
        """The limits in the dtype of the case."""
        return self._limits[0]

    @property
    def float32(self) -> Tensor:
        """The limits in float32."""
        return self._limits[1]

    def map(self, change: Callable[[Tensor], Tensor]) -> "Tolerance":
        """Return the tolerance with a change of its limits that keeps their order."""
        both = self
        return Tolerance.postpone(
            change(self.least), lambda: (change(both.exact), change(both.float32))
        )

    def covers(self, error: Tensor) -> bool:
        """Return whether absolute errors are within the dtype's limits; NaN never is."""
        return bool((error <= self.least).all()) or bool((error <= self.exact).all())

    def __add__(self, other: "Tolerance") -> "Tolerance":
        return Tolerance.postpone(
            self.least + other.least,
            lambda: (self.exact + other.exact, self.float32 + other.float32),
        )

    def __getitem__(self, index: object) -> "Tolerance":
        return self.map(lambda limit: limit[index])  # type: ignore[index]
