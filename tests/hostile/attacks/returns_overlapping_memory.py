"""Returns a tensor whose numbers overlap and start before its storage ends."""

import torch


def answer(x, out):
    return torch.as_strided(
        out.contiguous(),
        x.shape[:2] + (out.shape[-1],),
        (0, 0, 0),
    )
