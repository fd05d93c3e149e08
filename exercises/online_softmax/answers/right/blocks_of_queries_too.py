"""Tiles: blocks of queries as well, each with its own running numbers."""

import torch


def attend_rows(query, key, value, size):
    scale = query.shape[-1] ** -0.5
    m = query.new_full(query.shape[:-1], -torch.inf)
    l, acc = torch.zeros_like(m), torch.zeros_like(query)
    for j in range(0, key.shape[2], size):
        s = query @ key[:, :, j : j + size].mT * scale
        m_new = torch.maximum(m, s.amax(-1))
        c, p = torch.exp(m - m_new), torch.exp(s - m_new[..., None])
        l, acc, m = c * l + p.sum(-1), c[..., None] * acc + p @ value[:, :, j : j + size], m_new
    return acc / l[..., None], m + torch.log(l)


def online_attention(query, key, value, block_size):
    rows = [attend_rows(each, key, value, block_size) for each in query.split(16, dim=2)]
    outputs, sums = zip(*rows)
    return torch.cat(outputs, dim=2), torch.cat(sums, dim=2)
