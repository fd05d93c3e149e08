"""Style: a function for one map, and addcmul for the difference."""

import torch
from torch import nn


class DifferentialAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.lambda_ = nn.Parameter(0.8 * torch.ones(num_heads))

    def attend(self, q, k):
        scores = torch.matmul(q, k.transpose(-2, -1)) / q.size(-1) ** 0.5
        visible = torch.arange(q.size(-2), device=q.device)
        return scores.masked_fill(visible[None, :] > visible[:, None], -torch.inf).softmax(-1)

    def forward(self, x):
        q, k, v = (
            torch.stack(layer(x).chunk(self.num_heads, dim=-1), dim=1)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        half = self.head_dim // 2
        first = self.attend(q.narrow(-1, 0, half), k.narrow(-1, 0, half))
        second = self.attend(q.narrow(-1, half, half), k.narrow(-1, half, half))
        weights = torch.addcmul(first, self.lambda_.reshape(-1, 1, 1), second, value=-1)
        merged = torch.cat(torch.matmul(weights, v).unbind(1), dim=-1)
        return self.out_proj(merged)
