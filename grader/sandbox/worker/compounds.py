"""Modules that contain modules of a submission."""

from typing import Any

from torch import Tensor, nn

from headcheck.grader.sandbox.worker.calling import extract_tensors


class Parent(nn.Module):
    """A module that contains a submission's module."""

    def __init__(self, child: nn.Module) -> None:
        super().__init__()
        self.child = child

    def forward(self, *inputs: Tensor) -> Any:
        return self.child(*inputs)


class Twins(nn.ModuleList):
    """Two modules that are called one after the other."""

    def forward(self, *inputs: Tensor) -> list[Tensor]:
        return [tensor for module in self for tensor in extract_tensors(module(*inputs))[:1]]
