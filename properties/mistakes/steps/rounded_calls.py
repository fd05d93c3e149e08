"""Wrappers of right attention whose results have fewer digits than their dtype allows."""

from functools import partial

import torch
from torch import Tensor, nn

from headcheck.properties.mistakes.steps.calls import Attend, CallWrapper, Result


def _round_float32(
    dtype: torch.dtype, module: nn.Module, attend: Attend, x: Tensor, mask: Tensor | None
) -> Result:
    def round_result(t: Tensor) -> Tensor:
        return t.to(dtype).to(t.dtype) if t.dtype is torch.float32 else t

    result = attend(x, mask)
    return round_result(result) if isinstance(result, Tensor) else tuple(map(round_result, result))


ROUNDED_CALLS: tuple[CallWrapper, ...] = tuple(
    partial(_round_float32, dtype) for dtype in (torch.bfloat16, torch.float16)
)
