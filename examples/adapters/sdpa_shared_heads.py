"""F.scaled_dot_product_attention with heads that share keys and values: `enable_gqa`."""

import torch.nn.functional as F
from torch import nn


class SharedHeads(nn.Module):
    def __init__(self, width, heads, kv_heads, dropout=0.0):
        super().__init__()
        self.head_dim, self.rate = width // heads, dropout
        self.query = nn.Linear(width, width)
        self.key_value = nn.Linear(width, 2 * kv_heads * self.head_dim)
        self.out = nn.Linear(width, width)

    def forward(self, x):
        query, key, value = self.split(self.query(x), 1), *self.split(self.key_value(x), 2)
        rate = self.rate if self.training else 0.0
        options = {"dropout_p": rate, "is_causal": True, "enable_gqa": True}
        mixed = F.scaled_dot_product_attention(query, key, value, **options)
        return self.out(mixed.transpose(1, 2).flatten(2))

    def split(self, t, parts):
        """Cut into heads of so many parts; one is no list."""
        cut = t.unflatten(-1, (parts, -1, self.head_dim)).permute(2, 0, 3, 1, 4)
        return cut[0] if parts == 1 else cut
