"""The fused kernel is told to scale by one. (named: no_scale)"""

import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("d_out must be divisible by num_heads")
        self.context_length = context_length
        self.num_heads = num_heads
        self.p = dropout
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def heads(self, y):
        b, t, d = y.shape
        return y.view(b, t, self.num_heads, d // self.num_heads).transpose(1, 2)

    def forward(self, x):
        xq = self.heads(self.W_query(x))
        xk = self.heads(self.W_key(x))
        xv = self.heads(self.W_value(x))
        # the kernel knows nothing of train() and eval()
        p = self.p if self.training else 0.0
        context = F.scaled_dot_product_attention(xq, xk, xv, dropout_p=p, is_causal=True, scale=1.0)
        return self.out_proj(context.transpose(1, 2).flatten(2))
