"""Modules are moved to other dtypes as torch moves them, but no complex table loses its half."""

import torch
from torch import Tensor, nn

from headcheck.grader.sandbox.worker.calling import list_replaced
from headcheck.grader.sandbox.worker.moving import move


class Turned(nn.Module):
    """Turns pairs of coordinates by complex numbers in a buffer."""

    turns: Tensor

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)
        self.register_buffer("turns", torch.polar(torch.ones(3), torch.arange(3.0)))
        self.register_buffer("nothing", None)


def test_a_complex_buffer_stays_complex_where_a_module_becomes_real() -> None:
    module = Turned()
    before = module.turns.clone()
    move(module, "cpu", torch.float64)
    assert module.layer.weight.dtype is torch.float64
    assert torch.equal(module.turns, before)
    assert [name for name, _ in module.named_buffers()] == ["turns"]


def test_methods_that_are_tried_leave_complex_buffers_as_they_were() -> None:
    module = Turned()
    before = module.turns.clone()
    assert list_replaced(module) == []
    assert torch.equal(module.turns, before)
