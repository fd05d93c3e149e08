import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "d_out must be divisible by num_heads"
        self.d_out = d_out
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads

        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)
        self.register_buffer(
            "mask",
            torch.triu(torch.ones(context_length, context_length), diagonal=1),
        )

    def forward(self, x):
        b, num_tokens, _ = x.shape
        shape = (b, num_tokens, self.num_heads, self.head_dim)

        keys = self.W_key(x).view(*shape).transpose(1, 2)
        queries = self.W_query(x).view(*shape).transpose(1, 2)
        values = self.W_value(x).view(*shape).transpose(1, 2)

        scores = queries @ keys.transpose(2, 3)
        hidden = self.mask.bool()[:num_tokens, :num_tokens]
        scores = scores.masked_fill(hidden, float("-inf"))

        weights = torch.softmax(scores / self.head_dim ** 0.5, dim=-1)
        weights = self.dropout(weights)

        ctx = (weights @ values).transpose(1, 2)
        ctx = ctx.contiguous().view(b, num_tokens, self.d_out)
        return self.out_proj(ctx)


torch.manual_seed(123)
batch = torch.rand(2, 6, 3)
mha = MultiHeadAttention(3, 4, 6, 0.0, num_heads=2)
print(mha(batch).shape)
