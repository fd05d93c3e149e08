"""Style: heads folded into the batch; baddbmm adds the products to the distances."""

import torch
from torch import nn


class AlibiAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def fold(self, tokens):
        batch, length, _ = tokens.shape
        heads = tokens.reshape(batch, length, self.num_heads, self.head_dim)
        return heads.permute(0, 2, 1, 3).flatten(0, 1)

    def forward(self, x):
        q, k, v = self.fold(self.W_query(x)), self.fold(self.W_key(x)), self.fold(self.W_value(x))
        wide = torch.promote_types(x.dtype, torch.float32)
        head = torch.arange(1, self.num_heads + 1, dtype=wide, device=x.device)
        position = torch.arange(x.shape[1], dtype=wide, device=x.device)
        distance = position.unsqueeze(1) - position
        bias = -torch.exp2(-8 * head / self.num_heads).view(-1, 1, 1) * distance
        bias = bias.masked_fill(distance < 0, float("-inf")).to(x.dtype).repeat(x.shape[0], 1, 1)
        scores = torch.baddbmm(bias, q, k.mT, alpha=self.head_dim**-0.5)
        weights = self.dropout(scores.softmax(dim=2))
        context = torch.bmm(weights, v).unflatten(0, (x.shape[0], self.num_heads))
        return self.out_proj(context.transpose(1, 2).flatten(2))
