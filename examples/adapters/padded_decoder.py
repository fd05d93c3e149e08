"""Causal attention that continues padded prompts: a mask of padding, a cache, rotary positions.

It promises more than plain attention does: whatever stands in padding counts for nothing, and where
a query sees no key its heads give zeros.
"""

import torch
from torch import nn


class PaddedDecoder(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads, self.head_dim = heads, width // heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, keep=None, cache=None):
        """Attend; `keep` says of all keys so far, (batch, keys), which are no padding."""
        tokens, past = x.shape[1], 0 if cache is None else cache[0].shape[2]
        q, k, v = self.qkv(x).unflatten(-1, (3, self.heads, self.head_dim)).permute(2, 0, 3, 1, 4)
        cos, sin = self.turns(past, tokens, x)
        q, k = turn(q, cos, sin), turn(k, cos, sin)
        if keep is not None:  # a weight of zero would keep no NaN out
            own = keep[:, None, past:, None]
            k, v = (torch.where(own, t, torch.zeros_like(t)) for t in (k, v))
        if cache is not None:
            k, v = torch.cat([cache[0], k], dim=2), torch.cat([cache[1], v], dim=2)

        places = torch.arange(past + tokens, device=x.device)
        visible = places <= places[past:, None]
        if keep is not None:
            visible = visible & keep[:, None, None, :]
        weights = share(q @ k.mT / self.head_dim**0.5, visible)
        return self.out((weights @ v).transpose(1, 2).flatten(2)), (k, v)

    def turns(self, past, tokens, x):
        """Return cosines and sines, computed in float32 at least, whatever the dtype of x is."""
        wide = torch.promote_types(x.dtype, torch.float32)
        pairs = torch.arange(0, self.head_dim, 2, device=x.device, dtype=wide)
        places = torch.arange(past, past + tokens, device=x.device, dtype=wide)
        angles = places[:, None] * 10_000 ** (-pairs / self.head_dim)
        angles = torch.cat([angles, angles], dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def turn(t, cos, sin):
    first, second = t.chunk(2, dim=-1)
    return t * cos + torch.cat([-second, first], dim=-1) * sin


def share(scores, visible):
    """Return a softmax over what is visible, and zeros where nothing is."""
    sees = visible.any(-1, keepdim=True)
    scores = scores.masked_fill(~visible & sees, float("-inf"))
    return torch.softmax(scores, dim=-1).masked_fill(~visible, 0.0)
