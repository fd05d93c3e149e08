"""Nothing is written yet."""

from torch import nn


class LlamaAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, num_kv_heads):
        super().__init__()

    def forward(self, x, cache=None):
        raise NotImplementedError
