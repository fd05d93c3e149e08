"""CausalSelfAttention of litgpt 0.5: rotary positions, shared keys, and its KVCache."""

import copy

import torch
from litgpt import Config
from litgpt.model import CausalSelfAttention, build_mask_cache, build_rope_cache

LONGEST, TABLE = 1100, 8192
NO_CACHE = object()


class LitGPT(CausalSelfAttention):
    def __init__(self, width, heads, groups, **more):
        sizes = {"n_embd": width, "n_head": heads, "n_query_groups": groups}
        sizes |= {"head_size": width // heads, "rotary_percentage": 1.0, "bias": False}
        super().__init__(Config(**sizes, **more), block_idx=0)
        self.tables = build_rope_cache(TABLE, width // heads)

    def forward(self, x, cache=NO_CACHE):
        """Call the layer as `litgpt.GPT` does, with the cache of an earlier call or without one."""
        past = 0 if cache is NO_CACHE or cache is None else cache[1]
        places = torch.arange(past, past + x.shape[1], device=x.device)
        cos, sin = (table.to(x)[places][None] for table in self.tables)
        if cache is NO_CACHE:
            return super().forward(x, cos, sin)
        rotated = {"rope_cache_length": cos.shape[-1], "dtype": x.dtype, "device": x.device}
        new = self.build_kv_cache(len(x), LONGEST, **rotated) if cache is None else cache[0]
        self.kv_cache = copy.deepcopy(new)
        mask = build_mask_cache(LONGEST, x.device)[:, :, places]
        output = super().forward(x, cos, sin, mask, places)
        kept, self.kv_cache = self.kv_cache, None
        return output, (kept, past + x.shape[1])
