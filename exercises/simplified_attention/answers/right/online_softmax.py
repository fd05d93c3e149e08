"""Streams over the keys, keeping a running maximum, sum and context for every query."""

import torch


def simplified_attention(x):
    top = torch.full_like(x[:, :1], float("-inf"))
    total = torch.zeros_like(top)
    context = torch.zeros_like(x)
    for key in x:
        score = (x * key).sum(dim=1, keepdim=True)
        new_top = torch.maximum(top, score)
        shrink, e = torch.exp(top - new_top), torch.exp(score - new_top)
        total = total * shrink + e
        context = context * shrink + e * key
        top = new_top
    return context / total
