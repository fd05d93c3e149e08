"""Numbers of documents are compared; positions count through the whole sequence."""

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
        tokens = x.shape[1]
        q, k, v = (
            layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2)
            for layer in (self.q_proj, self.k_proj, self.v_proj)
        )
        positions = torch.arange(tokens, device=x.device)
        q, k = rotate(q, positions), rotate(k, positions)
        visible = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).tril()
        if document_ids is not None:
            same = document_ids[:, None, :, None] == document_ids[:, None, None, :]
            visible = visible & same
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = scores.masked_fill(~visible, float("-inf")).softmax(-1)
        return self.o_proj((weights @ v).transpose(1, 2).flatten(2))
