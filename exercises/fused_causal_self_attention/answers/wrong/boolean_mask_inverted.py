"""The boolean mask marks the future, but the kernel reads True as "may attend". (named: mask_inverted)"""

import torch
from torch import Tensor, nn
from torch.nn import functional


class FusedCausalSelfAttention(nn.Module):
    def __init__(self, block_size: int, n_head: int, n_embd: int) -> None:
        super().__init__()
        self.shape = (n_head, n_embd // n_head)
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        allowed = torch.ones(block_size, block_size, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("allowed", allowed, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        t = x.shape[1]
        parts = [p.unflatten(-1, self.shape).transpose(1, 2) for p in self.c_attn(x).chunk(3, -1)]
        query, key, value = parts
        context = functional.scaled_dot_product_attention(
            query, key, value, attn_mask=self.allowed[:t, :t]
        )
        return self.c_proj(context.transpose(1, 2).flatten(2))
