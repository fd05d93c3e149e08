"""The first way divides by the sums of the columns."""

import torch


def causal_weights(queries, keys):
    scores = queries @ keys.T / keys.shape[-1] ** 0.5
    past = torch.tril(torch.softmax(scores, dim=-1))
    future = torch.triu(torch.ones_like(scores), diagonal=1).bool()
    masked = torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)
    return past / past.sum(dim=0, keepdim=True), masked
