"""LocalMHA of local-attention 1.11 with its cache, which takes one token at a time."""

import torch
from local_attention.transformer import LocalMHA


class CachedLocalAttention(LocalMHA):
    def __init__(self, width, heads, window, dropout=0.0):
        sizes = {"dim": width, "heads": heads, "dim_head": width // heads}
        super().__init__(**sizes, window_size=window - 1, causal=True, dropout=dropout)

    def forward(self, x, cache=None):
        if cache is None:
            return super().forward(x, return_cache=True)
        outputs = []
        for token in x.split(1, dim=1):
            output, cache = super().forward(token, cache=cache, return_cache=True)
            outputs.append(output)
        return torch.cat(outputs, dim=1), cache
