"""Squeezes the result: one token, or one feature, loses its dimension."""

import torch


def simplified_attention(x):
    weights = torch.softmax(x @ x.T, dim=-1)
    return (weights @ x).squeeze()
