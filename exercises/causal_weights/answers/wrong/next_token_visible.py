"""The mask starts one diagonal too late, so each token sees the next one. (named: next_token_visible)"""

import torch


def causal_weights(queries, keys):
    scores = queries @ keys.T / queries.size(1) ** 0.5
    hidden = torch.triu(torch.ones_like(scores), diagonal=2).bool()
    kept = torch.softmax(scores, dim=1).masked_fill(hidden, 0.0)
    first = kept / kept.sum(dim=1, keepdim=True)
    second = torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=1)
    return first, second
