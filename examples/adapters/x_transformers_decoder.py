"""Attention of x-transformers 2.31 as in its decoders: rotary positions, shared keys, its cache."""

import torch
from x_transformers.x_transformers import Attention, RotaryEmbedding


class XTransformersDecoder(Attention):
    def __init__(self, dim, dim_head, heads, kv_heads, dropout=0.0):
        sizes = {"dim": dim, "dim_head": dim_head, "heads": heads, "kv_heads": kv_heads}
        super().__init__(**sizes, dropout=dropout, causal=True)
        self.rotary = RotaryEmbedding(dim_head)

    def forward(self, x, cache=None):
        past = 0 if cache is None else cache.cached_kv[0].shape[-2]
        turning = self.rotary(torch.arange(past + x.shape[1], device=x.device))
        given = {"rotary_pos_emb": turning, "cache": cache, "return_intermediates": True}
        return super().forward(x, **given)
