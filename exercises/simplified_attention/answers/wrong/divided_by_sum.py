"""Normalises the scores by their sum instead of by a softmax. (named: normalised_by_sum)"""


def simplified_attention(x):
    scores = x @ x.T
    weights = scores / scores.sum(dim=-1, keepdim=True)
    return weights @ x
