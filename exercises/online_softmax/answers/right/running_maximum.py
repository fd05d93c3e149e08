"""A running maximum, sum and average, one block after the other."""

import torch


def online_attention(query, key, value, block_size):
    b, h, q, d = query.shape
    top = query.new_full((b, h, q, 1), float("-inf"))
    total = query.new_zeros(b, h, q, 1)
    mixed = query.new_zeros(b, h, q, d)
    for start in range(0, key.shape[2], block_size):
        k = key[:, :, start : start + block_size]
        v = value[:, :, start : start + block_size]
        scores = query @ k.mT * d**-0.5
        higher = torch.maximum(top, scores.amax(dim=-1, keepdim=True))
        alpha = torch.exp(top - higher)
        p = torch.exp(scores - higher)
        total = total * alpha + p.sum(dim=-1, keepdim=True)
        mixed = mixed * alpha + p @ v
        top = higher
    return mixed / total, (top + total.log()).squeeze(-1)
