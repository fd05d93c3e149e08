"""One key after the other, with a running maximum, for the queries that see it."""

import torch


def aligned_attention(query, key, value):
    b, h, q, d = query.shape
    k = key.shape[2]
    outputs = []
    for i in range(q):
        own = query[:, :, i] / d**0.5
        top = query.new_full((b, h, 1), -torch.inf)
        total, mixed = query.new_zeros(b, h, 1), query.new_zeros(b, h, d)
        for j in range(k - q + i + 1):
            score = (own * key[:, :, j]).sum(-1, keepdim=True)
            higher = torch.maximum(top, score.detach())
            old, new = (top - higher).exp(), (score - higher).exp()
            total, mixed, top = total * old + new, mixed * old + new * value[:, :, j], higher
        outputs.append(mixed / total)
    return torch.stack(outputs, dim=2)
