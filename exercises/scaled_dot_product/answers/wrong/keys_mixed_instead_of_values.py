"""Mixes the keys; the values are computed and forgotten. (named: keys_averaged)"""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    queries = x @ W_query
    keys = x @ W_key
    values = x @ W_value  # noqa: F841
    weights = torch.softmax(queries @ keys.T / keys.shape[-1] ** 0.5, dim=-1)
    return weights @ keys
