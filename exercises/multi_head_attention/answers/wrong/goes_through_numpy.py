"""The weights make a round trip through numpy and lose their gradient. (named: weights_detached)"""

import torch
from torch import nn


def softmax(att):
    shifted = att - att.max(dim=-1, keepdim=True).values
    powers = torch.exp(shifted)
    return powers / powers.sum(dim=-1, keepdim=True)


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "d_out % num_heads must be 0"
        self.d_out = d_out
        self.num_heads = num_heads
        self.d_head = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer("causal", torch.ones(context_length, context_length).triu(1) > 0)

    def forward(self, x):
        batch_size, seq_len, _ = x.shape

        def to_heads(y):
            return y.view(batch_size, seq_len, self.num_heads, self.d_head).transpose(1, 2)

        q = to_heads(self.W_query(x))
        k = to_heads(self.W_key(x))
        v = to_heads(self.W_value(x))

        att = torch.matmul(q, k.transpose(-2, -1)) * (self.d_head**-0.5)
        att.masked_fill_(self.causal[:seq_len, :seq_len], float("-inf"))
        attn = torch.from_numpy(softmax(att).detach().numpy())
        attn = self.dropout(attn)
        out = torch.matmul(attn, v).transpose(1, 2)
        return self.out_proj(out.reshape(batch_size, seq_len, self.d_out))
