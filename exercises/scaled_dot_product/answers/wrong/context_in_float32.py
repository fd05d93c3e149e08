"""Collects the rows in a float32 tensor, so float64 comes out as float32."""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    queries, keys, values = x @ W_query, x @ W_key, x @ W_value
    context = torch.zeros(x.shape[0], values.shape[1])
    for i, query in enumerate(queries):
        weights = torch.softmax(keys @ query / keys.shape[1] ** 0.5, dim=0)
        context[i] = weights @ values
    return context
