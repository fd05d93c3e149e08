"""The second device computes what the CPU does, also where torch has a way of its own for meta."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from headcheck.grader.sandbox.worker.left_behind import UnmovedTracker
from headcheck.grader.sandbox.worker.second_device import enable_second_device, get_cpu_tensor


def write_rows(t: Tensor) -> Tensor:
    changed = t.clone()
    changed[[0, 3]] = 0
    changed[:, [1, 2]] = changed[:, [2, 1]]
    return changed


USES: dict[str, Callable[[Tensor], Tensor]] = {
    "rows by a list": lambda t: t[[0, 2, 1]],
    "columns by a list": lambda t: t[:, [3, 0]],
    "two lists": lambda t: t[[0, 1], [2, 3]],
    "a mask of booleans": lambda t: t[..., [True, False, True, True]],
    "a range": lambda t: t[range(5, -1, -1)],
    "an array": lambda t: t[np.array([1, 2])],
    "a list beside others": lambda t: t[None, [4], 1:],
    "no rows": lambda t: t[[]],
    "written by lists": write_rows,
    "a tensor of indices": lambda t: t[torch.tensor([2, 0], device=t.device)],
    "a condition": lambda t: t[t[:, 0] > 0],
    "numbers": lambda t: t[1:3, -1] + t[np.int64(2), 0],
    "made there by asarray": lambda t: t[:2, 0] + torch.asarray([1.0, 2.0], device=t.device),
    "made there by tensor": lambda t: t[:2, 0] + torch.tensor([1.0, 2.0], device=t.device),
    "made like another": lambda t: t[:2, 0] + t.new_tensor([1, 2]),
}


@pytest.mark.parametrize("use", USES.values(), ids=USES)
def test_numbers_arrive_there(use: Callable[[Tensor], Tensor]) -> None:
    here = torch.randn(6, 4, generator=torch.Generator().manual_seed(1))
    with enable_second_device(UnmovedTracker(None, {})):
        there = use(here.to("meta"))
        assert there.device.type == "meta"
        assert torch.equal(get_cpu_tensor(there), use(here))
