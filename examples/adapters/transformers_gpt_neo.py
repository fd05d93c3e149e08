"""GPTNeoSelfAttention of transformers 5.23: scores without a scale, a window, and its cache."""

import copy

from transformers import DynamicCache, GPTNeoConfig
from transformers.models.gpt_neo.modeling_gpt_neo import GPTNeoSelfAttention


class GPTNeo(GPTNeoSelfAttention):
    def __init__(self, hidden_size, heads, window, attention_dropout=0.0):
        sizes = {"hidden_size": hidden_size, "num_heads": heads, "window_size": window}
        kinds = {"attention_types": [[["local"], 1]], "num_layers": 1}
        rates = {"attention_dropout": attention_dropout, "resid_dropout": 0.0}
        super().__init__(GPTNeoConfig(**sizes, **kinds, **rates), "local", layer_id=0)

    def forward(self, x, cache=None):
        cache = DynamicCache() if cache is None else copy.deepcopy(cache)
        return super().forward(x, layer_past=cache)[0], cache
