"""Takes three queries at a time, with a softmax by hand that uses powers of two."""

import math

import torch


def simplified_attention(x, block=3):
    parts = []
    for queries in x.split(block):
        scores = torch.tensordot(queries, x, dims=([1], [1]))
        shifted = scores - scores.max(dim=1, keepdim=True).values.detach()
        powers = torch.exp2(shifted * math.log2(math.e))
        parts.append(torch.tensordot(powers, x, dims=1) / powers.sum(dim=1, keepdim=True))
    return torch.cat(parts)
