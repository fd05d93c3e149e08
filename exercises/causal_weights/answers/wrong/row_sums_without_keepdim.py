"""Sums the rows without keepdim, so column j is divided by the sum of row j. (named: sums_without_keepdim)"""

import torch


def causal_weights(queries, keys):
    attn_scores = queries @ keys.T
    attn_weights = torch.softmax(attn_scores / keys.shape[-1] ** 0.5, dim=-1)
    simple = attn_weights.tril()
    renormalised = simple / simple.sum(dim=-1)

    mask = torch.ones_like(attn_scores).triu(diagonal=1).bool()
    hidden = attn_scores.masked_fill(mask, -torch.inf)
    masked = torch.softmax(hidden / keys.shape[-1] ** 0.5, dim=-1)
    return renormalised, masked
