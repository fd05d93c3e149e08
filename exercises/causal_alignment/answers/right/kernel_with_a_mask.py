"""torch's own kernel, which is given the mask as a tensor."""

import torch
import torch.nn.functional as F


def aligned_attention(query, key, value):
    q, k = query.shape[2], key.shape[2]
    seen = torch.ones(q, k, dtype=torch.bool, device=query.device).tril(k - q)
    return F.scaled_dot_product_attention(query, key, value, attn_mask=seen)
