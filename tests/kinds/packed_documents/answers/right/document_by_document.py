"""Each document is cut out, attends alone, and is put back."""

import torch
from torch import nn


def rotate(x, positions):
    half = x.shape[-1] // 2
    exponent = torch.arange(half, dtype=torch.float64, device=x.device) / half
    angles = positions[..., None].double() * 10000.0**-exponent
    cos, sin = angles.cos().to(x.dtype), angles.sin().to(x.dtype)
    first, second = x.chunk(2, dim=-1)
    return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)


class PackedAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.q_proj = nn.Linear(d_in, d_out, bias=False)
        self.k_proj = nn.Linear(d_in, d_out, bias=False)
        self.v_proj = nn.Linear(d_in, d_out, bias=False)
        self.o_proj = nn.Linear(d_out, d_out, bias=False)

    def attend(self, x):
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(0, 1)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        positions = torch.arange(len(x), device=x.device)
        scores = rotate(q, positions) @ rotate(k, positions).mT / q.shape[-1] ** 0.5
        future = torch.ones(len(x), len(x), dtype=torch.bool, device=x.device).triu(1)
        weights = torch.softmax(scores.masked_fill(future, float("-inf")), dim=-1)
        return (weights @ v).transpose(0, 1).flatten(1)

    def forward(self, x, document_ids=None):
        rows = []
        for b, tokens in enumerate(x):
            if document_ids is None:
                lengths = [len(tokens)]
            else:
                _, lengths = torch.unique_consecutive(document_ids[b], return_counts=True)
                lengths = lengths.tolist()
            rows.append(torch.cat([self.attend(part) for part in tokens.split(lengths)]))
        return self.o_proj(torch.stack(rows))
