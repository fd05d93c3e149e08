"""MultiHeadAttention of llms_from_scratch 1.0, kv_cache.gpt2: its cache holds keys and values."""

from llms_from_scratch.kv_cache.gpt2 import MultiHeadAttention


class CachedGPT(MultiHeadAttention):
    def forward(self, x, cache=None):
        return super().forward(x, use_cache=True, cache=cache)
