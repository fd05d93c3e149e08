"""The mask of all tokens as a square; the queries' rows are its last ones."""

import math

import torch


def aligned_attention(query, key, value):
    tokens = key.size(-2)
    future = torch.ones(tokens, tokens, device=key.device).triu(1).bool()
    hidden = future[tokens - query.size(-2) :]
    scores = torch.matmul(query, key.transpose(-1, -2)) / math.sqrt(query.size(-1))
    scores = torch.where(hidden, torch.full_like(scores, -math.inf), scores)
    return torch.matmul(torch.softmax(scores, -1), value)
