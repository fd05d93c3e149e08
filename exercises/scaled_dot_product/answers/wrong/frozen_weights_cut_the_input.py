"""With frozen weights nothing is recorded: the input gets no gradient."""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    if not (W_query.requires_grad or W_key.requires_grad or W_value.requires_grad):
        x = x.detach()
    q = x @ W_query
    k = x @ W_key
    v = x @ W_value
    scores = q @ k.T / k.shape[-1] ** 0.5
    weights = torch.softmax(scores, dim=-1)
    return weights @ v
