"""Returns a dtype of 8 bits that hardly anything supports."""

import torch


def answer(x, out):
    return out.to(torch.float8_e5m2)
