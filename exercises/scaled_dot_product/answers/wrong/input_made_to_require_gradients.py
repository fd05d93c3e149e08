"""The input is switched to require gradients."""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    if W_query.requires_grad and x.is_leaf and not x.is_inference():
        x.requires_grad_(True)
    q = x @ W_query
    k = x @ W_key
    v = x @ W_value
    scores = q @ k.T / k.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ v
