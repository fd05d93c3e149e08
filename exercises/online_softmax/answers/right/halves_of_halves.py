"""The keys are halved until a part fits into a block; results of halves are merged."""

import torch


def merge(one, other):
    (output, lse), (later, later_lse) = one, other
    top = torch.maximum(lse, later_lse)
    a, b = (lse - top).exp(), (later_lse - top).exp()
    mixed = output * a[..., None] + later * b[..., None]
    return mixed / (a + b)[..., None], top + torch.log(a + b)


def online_attention(query, key, value, block_size):
    keys = key.shape[2]
    if keys > block_size:
        half = keys // 2
        parts = (slice(0, half), slice(half, keys))
        return merge(*(online_attention(query, key[:, :, p], value[:, :, p], block_size) for p in parts))
    scores = query @ key.transpose(2, 3) / query.shape[3] ** 0.5
    lse = torch.logsumexp(scores, dim=3)
    return torch.exp(scores - lse[..., None]) @ value, lse
