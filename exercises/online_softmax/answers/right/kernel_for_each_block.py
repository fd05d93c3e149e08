"""torch's own attention for each block, and torch.logaddexp to merge the results."""

import torch
import torch.nn.functional as F


def online_attention(query, key, value, block_size):
    output, lse = None, None
    for k, v in zip(key.split(block_size, 2), value.split(block_size, 2)):
        own = F.scaled_dot_product_attention(query, k, v)
        own_lse = torch.logsumexp(query @ k.mT / query.shape[3] ** 0.5, dim=3)
        if output is None:
            output, lse = own, own_lse
            continue
        both = torch.logaddexp(lse, own_lse)
        output = output * (lse - both).exp().unsqueeze(3) + own * (own_lse - both).exp().unsqueeze(3)
        lse = both
    return output, lse
