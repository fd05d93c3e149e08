"""torch's own attention gives its weights away when the values are unit vectors."""

import torch
import torch.nn.functional as F


def causal_weights(queries, keys):
    units = torch.eye(keys.shape[0], dtype=keys.dtype, device=keys.device)
    q, k, v = queries[None], keys[None], units[None]
    everywhere = F.scaled_dot_product_attention(q, k, v)[0].tril()
    masked = F.scaled_dot_product_attention(q, k, v, is_causal=True)[0]
    return everywhere / everywhere.sum(1, keepdim=True), masked
