"""Empty queries in front make the scores a square, whose last rows are kept."""

import torch.nn.functional as F


def aligned_attention(query, key, value):
    missing = key.shape[2] - query.shape[2]
    whole = F.pad(query, (0, 0, missing, 0))
    return F.scaled_dot_product_attention(whole, key, value, is_causal=True)[:, :, missing:].clone()
