"""Stops one step early and returns the weights. (named: weights_returned)"""

import torch


def simplified_attention(x):
    attn_scores = x @ x.T
    attn_weights = torch.softmax(attn_scores, dim=-1)
    context = attn_weights @ x  # noqa: F841
    return attn_weights
