"""The first block begins the sums, so that nothing is ever infinite."""

import torch


def score(query, key):
    return torch.matmul(query, key.transpose(-1, -2)) / query.shape[-1] ** 0.5


def online_attention(query, key, value, block_size):
    scores = score(query, key[:, :, :block_size])
    top = scores.max(dim=-1).values
    p = torch.exp(scores - top.unsqueeze(-1))
    total, mixed = p.sum(-1), torch.matmul(p, value[:, :, :block_size])
    start = block_size
    while start < key.shape[2]:
        stop = min(start + block_size, key.shape[2])
        scores = score(query, key[:, :, start:stop])
        higher = torch.maximum(top, scores.max(dim=-1).values)
        shrink = torch.exp(top - higher)
        p = torch.exp(scores - higher.unsqueeze(-1))
        total = shrink * total + p.sum(-1)
        mixed = shrink.unsqueeze(-1) * mixed + torch.matmul(p, value[:, :, start:stop])
        top, start = higher, stop
    return mixed / total.unsqueeze(-1), total.log() + top
