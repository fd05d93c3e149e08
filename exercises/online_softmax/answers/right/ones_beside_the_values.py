"""A column of ones beside the values, so that one product gives the average and the sum."""

import torch


def online_attention(query, key, value, block_size):
    extended = torch.cat([value, torch.ones_like(value[..., :1])], dim=-1)
    query = query * query.shape[-1] ** -0.5
    top = query.new_full((*query.shape[:-1], 1), -torch.inf)
    both = query.new_zeros(*query.shape[:-1], value.shape[-1] + 1)
    for start in range(0, key.shape[-2], block_size):
        scores = query @ key[..., start : start + block_size, :].mT
        before, top = top, torch.maximum(top, scores.max(dim=-1, keepdim=True).values)
        p = (scores - top).exp()
        both = both * (before - top).exp() + p @ extended[..., start : start + block_size, :]
    mixed, total = both[..., :-1], both[..., -1]
    return mixed / total[..., None], top[..., 0] + total.log()
