"""A token sees itself and fifteen before it: right for short sequences only. (named: window)"""

import torch
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_head = config.n_head
        self.head_size = config.n_embd // config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.c_attn(x)
        queries = qkv[..., :width]
        keys = qkv[..., width : 2 * width]
        values = qkv[..., 2 * width :]

        allowed = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).tril()
        allowed = allowed.triu(diagonal=-15)

        outputs = []
        for h in range(self.n_head):
            mine = slice(h * self.head_size, (h + 1) * self.head_size)
            scores = queries[..., mine] @ keys[..., mine].transpose(1, 2)
            scores = scores / self.head_size**0.5
            scores = scores.masked_fill(~allowed, float("-inf"))
            weights = torch.softmax(scores, dim=-1)
            outputs.append(weights @ values[..., mine])
        return self.c_proj(torch.cat(outputs, dim=-1))
