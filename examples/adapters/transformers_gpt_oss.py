"""GptOssAttention of transformers 5.23: sinks, rotary positions, keys that heads share, a cache."""

import copy

import torch
from torch import nn
from transformers import DynamicCache, GptOssConfig
from transformers.masking_utils import create_causal_mask
from transformers.models.gpt_oss.modeling_gpt_oss import GptOssAttention, GptOssRotaryEmbedding


class GptOss(GptOssAttention):
    def __init__(self, hidden_size, heads, key_value_heads, attention_dropout=0.0):
        sizes = {"hidden_size": hidden_size, "head_dim": hidden_size // heads}
        sizes |= {"num_attention_heads": heads, "num_key_value_heads": key_value_heads}
        rates = {"attention_dropout": attention_dropout, "attn_implementation": "eager"}
        turning = {"rope_type": "default", "rope_theta": 10_000.0}
        kinds = {"layer_types": ["full_attention"], "num_hidden_layers": 1}
        config = GptOssConfig(**sizes, **rates, **kinds, rope_parameters=turning)
        super().__init__(config, layer_idx=0)
        nn.init.normal_(self.sinks)
        self.rotary = GptOssRotaryEmbedding(config)

    def forward(self, x, cache=None):
        cache = DynamicCache() if cache is None else copy.deepcopy(cache)
        past = cache.get_seq_length()
        places = torch.arange(past, past + x.shape[1], device=x.device)[None]
        given = {"attention_mask": None, "past_key_values": cache, "position_ids": places}
        mask = create_causal_mask(self.config, x, **given)
        return super().forward(x, self.rotary(x, places), mask, cache)[0], cache
