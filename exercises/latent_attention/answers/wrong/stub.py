"""Nothing is written yet."""

from torch import nn


class LatentAttention(nn.Module):
    def __init__(self, d_in, d_out, num_heads, d_latent, rope_dim):
        super().__init__()

    def forward(self, x, cache=None):
        raise NotImplementedError
