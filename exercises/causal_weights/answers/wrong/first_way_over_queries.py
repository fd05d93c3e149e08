"""The softmax of the first way runs over the queries. (named: softmax_over_queries)"""

import torch


def causal_weights(queries, keys):
    scores = queries @ keys.T / keys.shape[-1] ** 0.5
    past = torch.tril(torch.softmax(scores, dim=0))
    future = torch.triu(torch.ones_like(scores), diagonal=1).bool()
    masked = torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)
    return past / past.sum(dim=-1, keepdim=True), masked
