# %% [markdown]
# # Attention as in Llama
#
# Neighbouring heads share keys and values, queries and keys are turned by their positions, and keys
# and values of earlier tokens come from a cache. Fill in the marked places.

# %%
from typing import Any

import torch
from torch import Tensor, nn


# %%
class LlamaAttention(nn.Module):
    """Let heads that share keys and values attend causally, with rotary positions and a cache.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    head_dim = d_out // num_heads wide, an even number. Head h uses number h // group of the
    num_kv_heads heads of keys and of values, where group = num_heads // num_kv_heads.

    The layers, none with a bias: W_query, an nn.Linear from d_in to d_out; W_key and W_value, each
    an nn.Linear from d_in to num_kv_heads * head_dim; out_proj, an nn.Linear from d_out to d_out.

    Raises:
        ValueError: num_heads does not divide d_out, or num_kv_heads does not divide num_heads.
    """

    def __init__(self, d_in: int, d_out: int, num_heads: int, num_kv_heads: int) -> None:
        super().__init__()
        # BEGIN SOLUTION
        if d_out % num_heads != 0:
            raise ValueError(f"d_out={d_out} cannot be split evenly among num_heads={num_heads}")
        if num_heads % num_kv_heads != 0:
            raise ValueError(
                f"num_heads={num_heads} cannot share num_kv_heads={num_kv_heads} evenly"
            )
        self.group = num_heads // num_kv_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=False)
        self.W_key = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.W_value = nn.Linear(d_in, num_kv_heads * self.head_dim, bias=False)
        self.out_proj = nn.Linear(d_out, d_out, bias=False)
        # END SOLUTION

    def forward(self, x: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        """Map new tokens (batch, tokens, d_in), and the cache of those before, to two things.

        Returns the output, (batch, tokens, d_out), and the cache for the call after this one.
        """
        # BEGIN SOLUTION
        queries, keys, values = (self.split(w(x)) for w in (self.W_query, self.W_key, self.W_value))
        past = 0 if cache is None else cache[0].shape[2]
        queries, keys = self.turn(queries, past), self.turn(keys, past)
        if cache is not None:  # its keys are turned already
            keys = torch.cat([cache[0], keys], dim=2)
            values = torch.cat([cache[1], values], dim=2)

        # Head h uses number h // group of the keys and values; only one of each is kept.
        scores = queries @ keys.repeat_interleave(self.group, dim=1).mT / self.head_dim**0.5
        position = torch.arange(keys.shape[2], device=x.device)
        scores = scores.masked_fill(position > position[past:, None], float("-inf"))
        weights = torch.softmax(scores, dim=-1)

        context = weights @ values.repeat_interleave(self.group, dim=1)
        return self.out_proj(context.transpose(1, 2).flatten(2)), (keys, values)
        # END SOLUTION

    # BEGIN SOLUTION
    def split(self, t: Tensor) -> Tensor:
        """Map (batch, tokens, heads * head_dim) to (batch, heads, tokens, head_dim)."""
        return t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def turn(self, t: Tensor, past: int) -> Tensor:
        """Turn queries or keys, (batch, heads, tokens, head_dim), the first at position past."""
        tokens, half = t.shape[2], self.head_dim // 2
        # In float32 at least: bfloat16 does not tell position 257 from 256.
        dtype = torch.promote_types(t.dtype, torch.float32)
        pair = torch.arange(half, device=t.device, dtype=dtype)
        position = torch.arange(past, past + tokens, device=t.device, dtype=dtype)
        angle = position[:, None] * 10_000.0 ** (-pair / half)
        cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
        first, second = t.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)

    # END SOLUTION
