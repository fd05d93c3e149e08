# %% [markdown]
# # Rotary positions for longer sequences
#
# A model with rotary positions was trained on short sequences. Slow pairs of coordinates are slowed
# down further, so that longer sequences contain no angle that training did not. Fill in the marked
# places.

# %%
import math

import torch
from torch import Tensor, nn


# %%
class ScaledRotaryAttention(nn.Module):
    """Let several heads attend causally, with rotary positions for longer sequences.

    The widths: a token comes in d_in wide and leaves d_out wide; each of the num_heads heads is
    head_dim = d_out // num_heads wide, an even number.

    The layers: W_query, W_key and W_value, each an nn.Linear from d_in to d_out, with a bias only
    if qkv_bias; out_proj, an nn.Linear from d_out to d_out with a bias. Dropout acts on the
    attention weights.

    Raises:
        ValueError: num_heads does not divide d_out.
    """

    base = 64.0
    factor = 8.0  # how many times as long sequences become
    original_length = 48  # the length of the sequences in training
    low_freq_factor, high_freq_factor = 1.0, 4.0

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

    def forward(self, x: Tensor) -> Tensor:
        """Map (batch, tokens, d_in) to (batch, tokens, d_out); no token sees a later one."""
        # BEGIN SOLUTION
        batch, tokens, _ = x.shape
        # (batch, tokens, d_out) -> (batch, heads, tokens, head_dim): each head gets its own slice.
        queries = self.W_query(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        keys = self.W_key(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        values = self.W_value(x).view(batch, tokens, self.num_heads, self.head_dim).transpose(1, 2)
        queries, keys = self.rotate(queries), self.rotate(keys)

        scores = queries @ keys.transpose(2, 3) / self.head_dim**0.5
        position = torch.arange(tokens, device=x.device)
        scores = scores.masked_fill(position > position[:, None], float("-inf"))
        weights = self.dropout(torch.softmax(scores, dim=-1))

        context = (weights @ values).transpose(1, 2).flatten(2)
        output: Tensor = self.out_proj(context)
        return output
        # END SOLUTION

    def frequencies(self, like: Tensor) -> Tensor:
        """Return the scaled frequency of each pair, (head_dim // 2,), in float32 or better."""
        # BEGIN SOLUTION
        half = self.head_dim // 2
        pair = torch.arange(
            half, device=like.device, dtype=torch.promote_types(like.dtype, torch.float32)
        )
        frequency = self.base ** (-pair / half)
        turns = self.original_length * frequency / (2 * math.pi)
        kept = (turns - self.low_freq_factor) / (self.high_freq_factor - self.low_freq_factor)
        kept = kept.clamp(0, 1)
        return kept * frequency + (1 - kept) * frequency / self.factor
        # END SOLUTION

    def rotate(self, t: Tensor) -> Tensor:
        """Rotate queries or keys, (batch, heads, tokens, head_dim), by their positions."""
        # BEGIN SOLUTION
        frequency = self.frequencies(t)
        position = torch.arange(t.shape[2], device=t.device, dtype=frequency.dtype)
        angle = position[:, None] * frequency
        cos, sin = angle.cos().to(t.dtype), angle.sin().to(t.dtype)
        first, second = t.chunk(2, dim=-1)
        return torch.cat([first * cos - second * sin, second * cos + first * sin], dim=-1)
        # END SOLUTION
