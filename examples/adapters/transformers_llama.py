"""LlamaAttention of transformers 5.23, with its rotary positions, and keys that heads share."""

import torch
from transformers import LlamaConfig
from transformers.models.llama.modeling_llama import LlamaAttention, LlamaRotaryEmbedding


class Llama(LlamaAttention):
    def __init__(self, hidden_size, heads, key_value_heads, attention_dropout=0.0):
        sizes = {"hidden_size": hidden_size, "head_dim": hidden_size // heads}
        sizes |= {"num_attention_heads": heads, "num_key_value_heads": key_value_heads}
        rates = {"attention_dropout": attention_dropout, "attn_implementation": "sdpa"}
        config = LlamaConfig(**sizes, **rates)
        super().__init__(config, layer_idx=0)
        self.rotary = LlamaRotaryEmbedding(config)

    def forward(self, x):
        positions = torch.arange(x.shape[1], device=x.device)[None]
        return super().forward(x, self.rotary(x, positions), None)
