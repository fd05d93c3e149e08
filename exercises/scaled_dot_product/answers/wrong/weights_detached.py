"""Detaches the attention weights: W_query and W_key get no gradient. (named: weights_detached)"""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    queries = x @ W_query
    keys = x @ W_key
    values = x @ W_value
    attn_weights = torch.softmax(queries @ keys.T / keys.shape[-1] ** 0.5, dim=-1)
    return attn_weights.detach() @ values
