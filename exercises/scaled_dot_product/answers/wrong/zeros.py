"""Returns zeros of the right shape. (named: zeros_returned)"""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    return torch.zeros(x.shape[0], W_value.shape[1], dtype=x.dtype, device=x.device)
