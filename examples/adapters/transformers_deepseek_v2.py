"""DeepseekV2Attention of transformers 5.23, with its cache of latents; their norm is taken out."""

import copy

import torch
from torch import nn
from transformers import DeepseekV2Config, DynamicCache
from transformers.masking_utils import create_causal_mask
from transformers.models.deepseek_v2.modeling_deepseek_v2 import (
    DeepseekV2Attention,
    DeepseekV2RotaryEmbedding,
)


class DeepseekV2(DeepseekV2Attention):
    def __init__(self, hidden_size, heads, kv_lora_rank, qk_rope_head_dim):
        width = hidden_size // heads
        sizes = {"hidden_size": hidden_size, "num_attention_heads": heads, "q_lora_rank": None}
        sizes |= {"num_key_value_heads": heads, "v_head_dim": width, "qk_nope_head_dim": width}
        sizes |= {"kv_lora_rank": kv_lora_rank, "qk_rope_head_dim": qk_rope_head_dim}
        config = DeepseekV2Config(**sizes, attn_implementation="eager")
        super().__init__(config, layer_idx=0)
        self.kv_a_layernorm = nn.Identity()
        self.rotary = DeepseekV2RotaryEmbedding(config)

    def forward(self, x, cache=None):
        cache = DynamicCache() if cache is None else copy.deepcopy(cache)
        past = cache.get_seq_length()
        places = torch.arange(past, past + x.shape[1], device=x.device)[None]
        given = {"attention_mask": None, "past_key_values": cache, "position_ids": places}
        mask = create_causal_mask(self.config, x, **given)
        return super().forward(x, mask, cache, self.rotary(x, places))[0], cache
