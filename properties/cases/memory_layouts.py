"""Lay a tensor out in memory as a case says, for tests that call an implementation directly.

The worker does not know cases, so it has its own code for the same layouts:
`grader.sandbox.worker.calling`.
"""

import torch
from torch import Tensor

from headcheck.properties.terms.case import MemoryLayout


def apply_memory_layout(x: Tensor, memory: MemoryLayout) -> Tensor:
    """Return the same values in another memory layout."""
    match memory:
        case MemoryLayout.CONTIGUOUS:
            return x.contiguous()
        case MemoryLayout.TRANSPOSED:
            return x.transpose(-1, -2).contiguous().transpose(-1, -2)
        case MemoryLayout.EXPANDED:
            return x[:1].expand_as(x)
        case MemoryLayout.SLICED:
            width = x.shape[-1]
            return torch.cat([x + 1, x, x - 1], dim=-1)[..., width : 2 * width]
        case MemoryLayout.MISALIGNED:
            return torch.cat([x.new_zeros(1), x.flatten()])[1:].view(x.shape)
