"""GPTNeoXAttention of transformers 5.23: a quarter of each head has rotary positions."""

import torch
from transformers import GPTNeoXConfig
from transformers.models.gpt_neox.modeling_gpt_neox import GPTNeoXAttention, GPTNeoXRotaryEmbedding


class NeoX(GPTNeoXAttention):
    def __init__(self, hidden_size, heads, attention_dropout=0.0):
        sizes = {"hidden_size": hidden_size, "num_attention_heads": heads}
        rates = {"attention_dropout": attention_dropout, "attn_implementation": "sdpa"}
        config = GPTNeoXConfig(**sizes, **rates)
        super().__init__(config, layer_idx=0)
        self.rotary = GPTNeoXRotaryEmbedding(config)

    def forward(self, x):
        positions = torch.arange(x.shape[1], device=x.device)[None]
        return super().forward(x, None, position_embeddings=self.rotary(x, positions))
