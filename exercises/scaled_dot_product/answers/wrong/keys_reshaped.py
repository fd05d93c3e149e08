"""Reshapes the keys to (d_out, tokens) instead of transposing them. (named: keys_viewed_not_transposed)"""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    tokens, d_out = x.shape[0], W_key.shape[1]
    queries, keys, values = (x @ W for W in (W_query, W_key, W_value))
    scores = queries @ keys.reshape(d_out, tokens) / d_out**0.5
    return torch.softmax(scores, dim=-1) @ values
