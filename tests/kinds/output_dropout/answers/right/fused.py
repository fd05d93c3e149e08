"""torch's own attention, and functions in place of layers."""

import torch.nn.functional as F
from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, d_in, n_embd, n_head, attn_pdrop, resid_pdrop):
        super().__init__()
        self.heads, self.rates = n_head, (attn_pdrop, resid_pdrop)
        self.query = nn.Linear(d_in, n_embd, bias=False)
        self.key = nn.Linear(d_in, n_embd, bias=False)
        self.value = nn.Linear(d_in, n_embd, bias=False)
        self.proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        of_weights, of_output = self.rates if self.training else (0.0, 0.0)
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.query, self.key, self.value)
        )
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, dropout_p=of_weights)
        return F.dropout(self.proj(y.transpose(1, 2).flatten(2)), of_output)
