"""Positions count from the beginning of each document; torch's own attention."""

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

    def forward(self, x, document_ids=None):
        batch, tokens, _ = x.shape
        if document_ids is None:
            document_ids = torch.zeros(batch, tokens, dtype=torch.long, device=x.device)
        same = document_ids.unsqueeze(2) == document_ids.unsqueeze(1)
        start = same.int().argmax(-1)
        positions = (torch.arange(tokens, device=x.device) - start)[:, None]
        q, k, v = (
            layer(x).view(batch, tokens, self.num_heads, -1).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = rotate(q, positions), rotate(k, positions)
        mask = (same & torch.ones_like(same[0]).tril()).unsqueeze(1)
        out = nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=mask)
        return self.o_proj(out.transpose(1, 2).reshape(batch, tokens, -1))
