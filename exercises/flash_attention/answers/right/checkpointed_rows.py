"""No backward by hand: each block of queries is a checkpoint, computed again on the way back."""

import torch
from torch.utils.checkpoint import checkpoint


def attend(q, k, v, first, causal):
    scores = q @ k.mT * q.shape[-1] ** -0.5
    if causal:
        seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool, device=q.device).tril(first)
        scores = scores.masked_fill(~seen, -torch.inf)
    return scores.softmax(-1) @ v


def flash_attention(query, key, value, block_size, causal=False):
    first = key.shape[2] - query.shape[2]
    rows = []
    for start in range(0, query.shape[2], block_size):
        part = query[:, :, start : start + block_size]
        rows.append(checkpoint(attend, part, key, value, first + start, causal, use_reentrant=False))
    return torch.cat(rows, dim=2)
