"""The mask starts on the diagonal, so no token sees itself. (named: own_token_hidden)"""

import torch


def causal_weights(queries, keys):
    t, d = queries.shape
    scores = queries @ keys.T / d**0.5
    hidden = torch.triu(torch.ones(t, t, dtype=torch.bool, device=scores.device), diagonal=0)
    kept = torch.softmax(scores, dim=-1).masked_fill(hidden, 0.0)
    return (
        kept / kept.sum(dim=-1, keepdim=True),
        torch.softmax(scores.masked_fill(hidden, -torch.inf), dim=-1),
    )
