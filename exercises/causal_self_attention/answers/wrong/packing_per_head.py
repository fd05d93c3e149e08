"""Takes the fused projection as query, key, value of head 0, then of head 1, and so on. (named: packed_projection_cut_wrongly)"""

import torch
from torch import Tensor, nn


class CausalSelfAttention(nn.Module):
    """Attention as in GPT-2, written with einsum."""

    def __init__(self, config) -> None:
        super().__init__()
        width, size = config.n_embd, config.block_size
        self.n_head = config.n_head
        self.c_attn = nn.Linear(width, 3 * width, bias=True)
        self.c_proj = nn.Linear(width, width, bias=True)
        future = torch.ones(size, size, dtype=torch.bool).triu(diagonal=1)
        self.register_buffer("future", future, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        tokens = x.size(1)
        # b: batch, q and k: tokens, h: heads, d: head size
        query, key, value = self.c_attn(x).unflatten(-1, (self.n_head, 3, -1)).unbind(dim=3)
        scores = torch.einsum("bqhd,bkhd->bhqk", query, key) * query.shape[-1] ** -0.5
        scores = scores.masked_fill(self.future[:tokens, :tokens], -torch.inf)
        weights = scores.softmax(dim=-1)
        context = torch.einsum("bhqk,bkhd->bqhd", weights, value)
        return self.c_proj(context.flatten(start_dim=-2))
