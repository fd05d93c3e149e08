"""A config of its own, which says by default whether torch's attention is called."""

from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn import functional


@dataclass
class GPTConfig:
    block_size: int = 1024
    n_layer: int = 12
    n_head: int = 12
    n_embd: int = 768
    dropout: float = 0.0
    bias: bool = True
    flash: bool = True


class CausalSelfAttention(nn.Module):
    def __init__(self, config: GPTConfig) -> None:
        super().__init__()
        self.heads, self.flash = config.n_head, config.flash
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd, bias=config.bias)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd, bias=config.bias)

    def forward(self, x: Tensor) -> Tensor:
        b, t, width = x.shape
        split = [p.view(b, t, self.heads, -1).transpose(1, 2) for p in self.c_attn(x).chunk(3, -1)]
        if self.flash:
            context = functional.scaled_dot_product_attention(*split, is_causal=True)
        else:
            q, k, v = split
            scores = q @ k.mT * k.shape[-1] ** -0.5
            hidden = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
            context = scores.masked_fill(hidden, -torch.inf).softmax(-1) @ v
        return self.c_proj(context.transpose(1, 2).reshape(b, t, width))
