"""Nothing is written yet."""

from torch import nn


class ScaledRotaryAttention(nn.Module):
    def __init__(self, d_in, d_out, dropout, num_heads, qkv_bias=False):
        super().__init__()

    def forward(self, x):
        raise NotImplementedError
