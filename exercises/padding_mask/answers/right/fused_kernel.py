"""Style: torch's fused attention, which takes a mask that broadcasts."""

from torch import nn


class PaddedAttention(nn.Module):
    """Padding is hidden from all."""

    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0, "num_heads must divide d_out"
        self.num_heads = num_heads
        self.head_dim = d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout = nn.Dropout(dropout)

    def split(self, tokens):
        return tokens.unflatten(-1, (self.num_heads, self.head_dim)).transpose(1, 2)

    def forward(self, x, mask=None):
        context = nn.functional.scaled_dot_product_attention(
            self.split(self.W_query(x)),
            self.split(self.W_key(x)),
            self.split(self.W_value(x)),
            attn_mask=None if mask is None else mask[:, None, None, :],
            dropout_p=self.dropout.p if self.training else 0.0,
        )
        return self.out_proj(context.transpose(1, 2).flatten(2))
