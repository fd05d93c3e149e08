"""Nothing is written yet."""

from torch import nn


class LinearAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, qkv_bias=False):
        super().__init__()

    def forward(self, x, state=None):
        raise NotImplementedError
