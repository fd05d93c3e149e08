"""Attention of gpt-fast: rotary positions in pairs of neighbours, shared keys, and its KVCache."""

import torch
from gptfast.model import Attention, KVCache, ModelArgs, precompute_freqs_cis

LONGEST = 1100


class GPTFast(Attention):
    def __init__(self, dim, n_head, n_local_heads):
        super().__init__(ModelArgs(dim=dim, n_head=n_head, n_local_heads=n_local_heads))
        self.past = 0

    def forward(self, x, use_cache=False):
        if use_cache and self.kv_cache is None:
            sizes = len(x), LONGEST, self.n_local_heads, self.head_dim
            self.kv_cache = KVCache(*sizes, dtype=x.dtype).to(x.device)
        kept, past = self.kv_cache, self.past if use_cache else 0
        keys = LONGEST if use_cache else x.shape[1]
        self.kv_cache = kept if use_cache else None
        places = torch.arange(past, past + x.shape[1], device=x.device)
        tables = precompute_freqs_cis(past + x.shape[1], self.head_dim, dtype=x.dtype).to(x.device)
        seen = torch.ones(keys, keys, dtype=torch.bool, device=x.device).tril()[None, None, places]
        output = super().forward(x, tables[places], seen, places)
        self.kv_cache = kept
        self.past += x.shape[1] * use_cache
        return output

    def forget(self):
        self.kv_cache, self.past = None, 0
