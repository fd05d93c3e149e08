"""The second of the pair is the masked scores: the softmax is missing. (named: no_softmax)"""

import torch


def causal_weights(queries, keys):
    scores = queries @ keys.T / keys.shape[-1] ** 0.5
    past = torch.softmax(scores, dim=-1).tril()
    renormalised = past / past.sum(dim=-1, keepdim=True)
    future = torch.ones_like(scores, dtype=torch.bool).triu(1)
    masked = scores.masked_fill(future, -torch.inf)
    return renormalised, masked
