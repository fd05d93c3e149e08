"""Exponentials to base two, as kernels take them, and a logarithm to base e in the end."""

import math

import torch


def online_attention(query, key, value, block_size):
    scale = math.log2(math.e) / math.sqrt(query.shape[-1])
    top = torch.full_like(query[..., :1], -math.inf)
    total, mixed = torch.zeros_like(top), torch.zeros_like(query)
    for k, v in zip(torch.split(key, block_size, -2), torch.split(value, block_size, -2)):
        scores = (query @ k.mT) * scale
        higher = torch.maximum(top, scores.detach().amax(-1, keepdim=True))
        p, alpha = torch.exp2(scores - higher), torch.exp2(top - higher)
        total, mixed, top = total * alpha + p.sum(-1, keepdim=True), mixed * alpha + p @ v, higher
    return mixed / total, ((top + total.log2()) * math.log(2)).squeeze(-1)
