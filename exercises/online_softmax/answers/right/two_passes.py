"""The log-sum-exp of all blocks first, and the average with the final weights afterwards."""

import torch


def online_attention(query, key, value, block_size):
    scaled = query / query.shape[-1] ** 0.5
    lse = torch.full_like(query[..., 0], -torch.inf)
    for k in key.split(block_size, dim=-2):
        lse = torch.logaddexp(lse, torch.logsumexp(scaled @ k.mT, dim=-1))
    output = torch.zeros_like(query)
    for k, v in zip(key.split(block_size, dim=-2), value.split(block_size, dim=-2)):
        output = output + torch.exp(scaled @ k.mT - lse.unsqueeze(-1)) @ v
    return output, lse
