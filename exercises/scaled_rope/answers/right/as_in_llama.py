"""Style: a loop over the frequencies, with three cases, as in Llama 3.1; plain numbers, made once."""

import math

import torch
from torch import nn


def apply_scaling(freqs):
    scale_factor, low_freq_factor, high_freq_factor, old_context_len = 8, 1, 4, 48
    low_freq_wavelen = old_context_len / low_freq_factor
    high_freq_wavelen = old_context_len / high_freq_factor
    new_freqs = []
    for freq in freqs:
        wavelen = 2 * math.pi / freq
        if wavelen < high_freq_wavelen:
            new_freqs.append(freq)
        elif wavelen > low_freq_wavelen:
            new_freqs.append(freq / scale_factor)
        else:
            smooth = (old_context_len / wavelen - low_freq_factor) / (
                high_freq_factor - low_freq_factor
            )
            new_freqs.append((1 - smooth) * freq / scale_factor + smooth * freq)
    return new_freqs


class ScaledRotaryAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.speeds = apply_scaling([64 ** (-2 * i / self.head_dim) for i in range(self.head_dim // 2)])
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def rotate(self, t):
        # t: batch, tokens, heads, head_dim; angle: tokens, 1, half
        wide = torch.promote_types(t.dtype, torch.float32)
        speeds = torch.tensor(self.speeds, dtype=wide, device=t.device)
        angle = torch.arange(t.shape[1], dtype=wide, device=t.device)[:, None, None] * speeds
        first, second = t.to(wide).chunk(2, dim=-1)
        turned = first * angle.cos() - second * angle.sin(), second * angle.cos() + first * angle.sin()
        return torch.cat(turned, dim=-1).to(t.dtype)

    def forward(self, x):
        # b: batch, i, j: tokens, h: heads, d: width of a head
        query = self.rotate(self.W_query(x).unflatten(-1, (self.num_heads, -1)))
        key = self.rotate(self.W_key(x).unflatten(-1, (self.num_heads, -1)))
        value = self.W_value(x).unflatten(-1, (self.num_heads, -1))
        scores = torch.einsum("bihd,bjhd->bhij", query, key) * self.head_dim**-0.5
        hidden = torch.full(scores.shape[-2:], float("-inf"), dtype=x.dtype, device=x.device)
        weights = self.dropout((scores + hidden.triu(1)).softmax(dim=-1))
        return self.out_proj(torch.einsum("bhij,bjhd->bihd", weights, value).flatten(-2))
