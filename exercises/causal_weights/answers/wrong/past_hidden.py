"""The mask is the wrong triangle: the past is hidden and the future seen. (named: mask_transposed)"""

import torch


def causal_weights(queries, keys):
    scores = queries @ keys.T / keys.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1).triu()
    weights = weights / weights.sum(dim=-1, keepdim=True)
    past = torch.ones_like(scores, dtype=torch.bool).tril(diagonal=-1)
    masked = torch.softmax(scores.masked_fill(past, -torch.inf), dim=-1)
    return weights, masked
