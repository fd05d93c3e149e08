"""A function for each way, mapped over; queries and keys share the scale between them."""

import torch


def by_renormalising(scores):
    weights = torch.softmax(scores, dim=-1)
    lower = torch.ones_like(weights).tril()
    weights = weights * lower
    return (weights.T / weights.sum(dim=-1)).T


def by_masking(scores):
    upper = torch.ones_like(scores).triu(1) == 1
    top = scores.masked_fill(upper, torch.finfo(scores.dtype).min).amax(-1, keepdim=True)
    powers = torch.exp(scores.masked_fill(upper, -torch.inf) - top)
    return powers / powers.sum(-1, keepdim=True)


def causal_weights(queries, keys):
    shrink = queries.size(1) ** -0.25
    scores = (queries * shrink) @ (keys * shrink).transpose(0, 1)
    return tuple(way(scores) for way in (by_renormalising, by_masking))
