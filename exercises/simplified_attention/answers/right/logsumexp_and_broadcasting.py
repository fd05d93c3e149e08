"""Scores by broadcasting and summing, weights by log-sum-exp, the average by broadcasting again."""


def simplified_attention(x):
    scores = (x[:, None, :] * x[None, :, :]).sum(dim=-1)
    weights = (scores - scores.logsumexp(dim=1, keepdim=True)).exp()
    return (weights[:, :, None] * x[None, :, :]).sum(dim=1)
