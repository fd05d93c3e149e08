"""One query at a time by vmap: closures over keys and values, the mean by a weighted sum."""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    keys = torch.einsum("td,de->te", x, W_key)
    values = torch.einsum("td,de->te", x, W_value)
    root = keys.shape[-1] ** 0.5

    def context_of(token):
        query = token @ W_query
        weights = torch.softmax(keys @ query / root, dim=0)
        return (weights.unsqueeze(1) * values).sum(dim=0)

    return torch.vmap(context_of)(x)
