"""Compares features instead of tokens: the scores are (d, d)."""

import torch


def simplified_attention(x):
    scores = x.T @ x
    weights = torch.softmax(scores, dim=-1)
    return x @ weights
