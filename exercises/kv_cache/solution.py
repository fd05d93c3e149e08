# %% [markdown]
# # Key-value cache
#
# Keys and values of earlier tokens are kept, so that a call computes those of its new tokens only.
# Fill in the marked places.

# %%
from typing import Any

import torch
from torch import Tensor, nn


# %%
class CachedAttention(nn.Module):
    """Let several heads attend causally; a sequence may come in several calls.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    head_dim = d_out // num_heads wide.

    The layers: W_query, W_key and W_value, each an nn.Linear from d_in to d_out, with a bias only
    if qkv_bias; out_proj, an nn.Linear from d_out to d_out with a bias. Dropout acts on the
    attention weights.

    Raises:
        ValueError: num_heads does not divide d_out.
    """

    def __init__(
        self,
        d_in: int,
        d_out: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        # BEGIN SOLUTION
        if d_out % num_heads != 0:
            raise ValueError(f"d_out={d_out} cannot be split evenly among num_heads={num_heads}")
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        # END SOLUTION

    def forward(self, x: Tensor, cache: Any = None) -> tuple[Tensor, Any]:
        """Map new tokens (batch, tokens, d_in), and the cache of those before, to two things.

        Returns the output, (batch, tokens, d_out), and the cache for the call after this one.
        """
        # BEGIN SOLUTION
        queries, keys, values = (self.split(w(x)) for w in (self.W_query, self.W_key, self.W_value))
        if cache is not None:
            keys = torch.cat([cache[0], keys], dim=2)
            values = torch.cat([cache[1], values], dim=2)

        tokens, known = x.shape[1], keys.shape[2]
        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        # New token i is token known - tokens + i of the sequence.
        position = torch.arange(known, device=x.device)
        scores = scores.masked_fill(position > position[known - tokens :, None], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))

        context = (weights @ values).transpose(1, 2).flatten(2)
        return self.out_proj(context), (keys, values)  # (batch, heads, tokens so far, head_dim)
        # END SOLUTION

    # BEGIN SOLUTION
    def split(self, t: Tensor) -> Tensor:
        """Map (batch, tokens, d_out) to (batch, heads, tokens, head_dim)."""
        return t.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    # END SOLUTION
