"""Queries and keys change places, so the weights come out transposed before the softmax. (named: queries_and_keys_exchanged)"""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    keys = x @ W_query
    queries = x @ W_key
    values = x @ W_value
    weights = torch.softmax(queries @ keys.T / keys.shape[-1] ** 0.5, dim=-1)
    return weights @ values
