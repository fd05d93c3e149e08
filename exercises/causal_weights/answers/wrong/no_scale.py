"""The scores are not divided by the root of the width. (named: no_scale)"""

import torch


def causal_weights(queries, keys):
    scores = queries @ keys.T
    future = torch.ones_like(scores).triu(1) == 1
    kept = torch.softmax(scores, dim=-1).masked_fill(future, 0)
    masked = torch.softmax(scores.masked_fill(future, -torch.inf), dim=-1)
    return kept / kept.sum(dim=-1, keepdim=True), masked
