"""Nothing is written yet."""

from torch import nn


class GPTBlock(nn.Module):
    def __init__(self, emb_dim, num_heads, qkv_bias=False):
        super().__init__()

    def forward(self, x):
        raise NotImplementedError
