"""Nothing is written yet."""

from torch import nn


class SlidingWindowAttention(nn.Module):
    def __init__(self, d_in, d_out, window, dropout, num_heads, qkv_bias=False):
        super().__init__()

    def forward(self, x):
        raise NotImplementedError
