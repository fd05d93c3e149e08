"""The softmax by torch.logsumexp, with a mask that is added."""

import torch


def aligned_attention(query, key, value):
    q, k = query.shape[-2], key.shape[-2]
    bias = torch.full((q, k), -torch.inf, dtype=query.dtype, device=query.device).triu(k - q + 1)
    scores = query @ key.mT / query.shape[-1] ** 0.5 + bias
    return (scores - torch.logsumexp(scores, dim=-1, keepdim=True)).exp() @ value
