# %% [markdown]
# # Multi-head latent attention
#
# Keys and values of all heads are made of one latent of each token, and a part beside it tells
# positions. Fill in the marked places.

# %%
from typing import Any

import torch
from torch import Tensor, nn


# %%
class LatentAttention(nn.Module):
    """Let heads attend causally with keys and values made of latents, and a cache of these.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    head_dim = d_out // num_heads wide, and its queries and keys have rope_dim numbers more, an even
    number, which are turned. d_latent is the width of a latent.

    The layers, none with a bias: W_query, an nn.Linear from d_in to d_out; W_query_rope, from d_in
    to num_heads * rope_dim; W_down, from d_in to d_latent; W_up_key and W_up_value, each from
    d_latent to d_out; W_key_rope, from d_in to rope_dim; out_proj, from d_out to d_out.

    Raises:
        ValueError: num_heads does not divide d_out.
    """

    def __init__(self, d_in: int, d_out: int, num_heads: int, d_latent: int, rope_dim: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        if d_out % num_heads != 0:
            raise ValueError(f"d_out={d_out} cannot be split evenly among num_heads={num_heads}")
        self.num_heads = num_heads
        self.width = d_out // num_heads + rope_dim
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_query_rope = nn.Linear(d_in, num_heads * rope_dim, bias=False)
        self.W_down = nn.Linear(d_in, d_latent, bias=False)
        self.W_up_key = nn.Linear(d_latent, d_out, bias=False)
        self.W_up_value = nn.Linear(d_latent, d_out, bias=False)
        self.W_key_rope = nn.Linear(d_in, rope_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        # END SOLUTION

    def forward(self, x: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        """Map new tokens (batch, tokens, d_in), and the cache of those before, to two things.

        Returns the output, (batch, tokens, d_out), and the cache for the call after this one.
        """
        # BEGIN SOLUTION
        past = 0 if cache is None else cache[0].shape[1]
        latents, turned_keys = self.W_down(x), self.turn(self.W_key_rope(x).unsqueeze(1), past)
        if cache is not None:
            latents = torch.cat([cache[0], latents], dim=1)
            turned_keys = torch.cat([cache[1], turned_keys], dim=2)

        queries, turned_queries = self.split(self.W_query(x)), self.split(self.W_query_rope(x))
        queries = torch.cat([queries, self.turn(turned_queries, past)], dim=-1)
        keys, values = self.split(self.W_up_key(latents)), self.split(self.W_up_value(latents))
        # All heads have the same turned key: (batch, 1, tokens so far, rope_dim).
        keys = torch.cat([keys, turned_keys.expand(-1, self.num_heads, -1, -1)], dim=-1)

        scores = queries @ keys.mT / self.width**0.5
        position = torch.arange(keys.shape[2], device=x.device)
        scores = scores.masked_fill(position > position[past:, None], float("-inf"))
        context = torch.softmax(scores, dim=-1) @ values
        return self.out_proj(context.transpose(1, 2).flatten(2)), (latents, turned_keys)
        # END SOLUTION

    # BEGIN SOLUTION
    def split(self, t: Tensor) -> Tensor:
        """Map (batch, tokens, all heads) to (batch, heads, tokens, one head)."""
        return t.unflatten(-1, (self.num_heads, -1)).transpose(1, 2)

    def turn(self, t: Tensor, past: int) -> Tensor:
        """Turn queries or keys, (batch, heads, tokens, rope_dim), the first at position past."""
        tokens, half = t.shape[2], t.shape[3] // 2
        # In float32 at least: bfloat16 does not tell position 257 from 256.
        dtype = torch.promote_types(t.dtype, torch.float32)
        pair = torch.arange(half, device=t.device, dtype=dtype)
        position = torch.arange(past, past + tokens, device=t.device, dtype=dtype)
        angle = position[:, None] * 10_000.0 ** (-pair / half)
        cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
        first, second = t.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    # END SOLUTION
