"""Returns a quantised tensor."""

import torch


def answer(x, out):
    return torch.quantize_per_tensor(out.float(), 0.1, 0, torch.quint8)
