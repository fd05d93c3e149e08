"""Small heads are scaled as if they had 64 channels. (named: scale_of_the_example)"""

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
        batch_size, t, d = y.shape
        return y.view(batch_size, t, self.num_heads, d // self.num_heads).transpose(1, 2)

    def forward(self, x):
        q = self.heads(self.W_query(x))
        k = self.heads(self.W_key(x))
        v = self.heads(self.W_value(x))
        # the kernel knows nothing of train() and eval()
        p = self.p if self.training else 0.0
        context = F.scaled_dot_product_attention(
            q, k, v, dropout_p=p, is_causal=True, scale=64**-0.5
        )
        return self.out_proj(context.transpose(1, 2).flatten(2))
