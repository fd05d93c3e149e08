"""GroupedQueryAttention of llms_from_scratch 1.0, kv_cache.qwen3: norms, positions, a cache."""

import torch
from llms_from_scratch.kv_cache.qwen3 import GroupedQueryAttention, compute_rope_params

LONGEST = 8192


class FromScratchQwen3(GroupedQueryAttention):
    def __init__(self, width, heads, kv_heads):
        super().__init__(width, heads, kv_heads, qk_norm=True)
        self.tables = compute_rope_params(self.head_dim, context_length=LONGEST)

    def forward(self, x, cache=None):
        past = 0 if cache is None else cache[0].shape[2]
        places = torch.arange(past + x.shape[1], device=x.device)
        mask = places > places[past:, None]  # true hides
        cos, sin = (table.to(x.device) for table in self.tables)
        return super().forward(x, mask, cos, sin, start_pos=past, cache=cache)
