"""Makes the mask on the CPU, wherever the queries and keys are."""

import torch


def causal_weights(queries, keys):
    tokens, d = keys.shape
    scores = queries @ keys.T / d**0.5

    past = torch.softmax(scores, dim=-1).tril()
    renormalised = past / past.sum(dim=-1, keepdim=True)

    future = torch.ones(tokens, tokens, dtype=torch.bool).triu(1)
    return renormalised, torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)
