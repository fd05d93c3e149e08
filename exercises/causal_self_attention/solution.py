# %% [markdown]
# # Causal self-attention with one fused projection
#
# Queries, keys and values come out of a single linear layer, as in GPT-2. Fill in the marked
# places.

# %%
from dataclasses import dataclass

import torch
from torch import Tensor, nn


# %%
@dataclass(frozen=True)
class AttentionConfig:
    """The sizes of one attention layer; n_head divides n_embd."""

    n_embd: int
    n_head: int
    block_size: int


# %%
class CausalSelfAttention(nn.Module):
    """Causal attention by several heads, whose queries, keys and values one layer computes.

    The layers, both nn.Linear with a bias: c_attn, from n_embd to 3 * n_embd, which puts out the
    query, then the key, then the value of every head; c_proj, from n_embd to n_embd. There is no
    dropout.
    """

    def __init__(self, config: AttentionConfig) -> None:
        super().__init__()
        # BEGIN SOLUTION
        self.n_embd = config.n_embd
        self.n_head = config.n_head
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)
        # A buffer, so that it moves to another device together with the module.
        self.may_attend: Tensor
        size = config.block_size
        self.register_buffer("may_attend", torch.ones(size, size, dtype=torch.bool).tril())
        # END SOLUTION

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, n_embd) to (batch, tokens, n_embd); no token sees a later one."""
        # BEGIN SOLUTION
        batch, tokens, _ = x.shape
        head_size = self.n_embd // self.n_head
        per_head = (batch, tokens, self.n_head, head_size)
        q, k, v = self.c_attn(x).split(self.n_embd, dim=-1)
        # (batch, tokens, n_embd) -> (batch, n_head, tokens, head_size): each head has its slice.
        q = q.view(per_head).transpose(1, 2)
        k = k.view(per_head).transpose(1, 2)
        v = v.view(per_head).transpose(1, 2)

        scores = q @ k.transpose(-2, -1) / head_size**0.5
        scores = scores.masked_fill(~self.may_attend[:tokens, :tokens], float("-inf"))
        weights = torch.softmax(scores, dim=-1)

        # Back to (batch, tokens, n_embd), the heads side by side in their order.
        mixed = (weights @ v).transpose(1, 2).reshape(batch, tokens, self.n_embd)
        output: Tensor = self.c_proj(mixed)
        return output
        # END SOLUTION
