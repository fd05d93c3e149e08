"""The loss whose gradients are judged."""

from dataclasses import dataclass

from torch import Tensor


@dataclass(frozen=True, eq=False)
class Loss:
    """The loss sum(output * cotangent) of one output, and the weights that dropout kept."""

    cotangent: Tensor
    output: int = 0
    """the number of the output"""
    kept: Tensor | None = None
