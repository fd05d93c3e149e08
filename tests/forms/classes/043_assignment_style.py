import torch
import torch.nn as nn
import math


class MultiHeadAttention(nn.Module):
    """
    Inputs of forward:
      query (N, S, E), key (N, T, E), value (N, T, E), attn_mask (S, T) where
      mask[i, j] == 0 means token i must not look at token j.
    """

    def __init__(self, embed_dim, num_heads, dropout=0.1):
        super().__init__()
        assert embed_dim % num_heads == 0
        # in this order so that seeded weights match the expected numbers
        self.key = nn.Linear(embed_dim, embed_dim)
        self.query = nn.Linear(embed_dim, embed_dim)
        self.value = nn.Linear(embed_dim, embed_dim)
        self.proj = nn.Linear(embed_dim, embed_dim)
        self.attn_drop = nn.Dropout(dropout)
        self.n_head = num_heads
        self.emd_dim = embed_dim
        self.head_dim = self.emd_dim // self.n_head

    def forward(self, query, key, value, attn_mask=None):
        N, S, E = query.shape
        N, T, E = value.shape
        # ***** START OF YOUR CODE *****
        H, D = self.n_head, self.head_dim
        q = self.query(query).view(N, S, H, D).moveaxis(1, 2)
        k = self.key(key).view(N, T, H, D).moveaxis(1, 2)
        v = self.value(value).view(N, T, H, D).moveaxis(1, 2)
        e = (q @ k.transpose(2, 3)) / math.sqrt(D)
        if attn_mask is not None:
            e = e.masked_fill(attn_mask == 0, -math.inf)
        y = self.attn_drop(torch.softmax(e, dim=-1)) @ v
        output = self.proj(y.moveaxis(1, 2).reshape(N, S, E))
        # ***** END OF YOUR CODE *****
        return output
