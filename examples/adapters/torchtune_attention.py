"""MultiHeadAttention of torchtune 0.6: rotary positions, shared keys, and its KVCache."""

import torch
from torch import nn
from torchtune.modules import MultiHeadAttention, RotaryPositionalEmbeddings

LONGEST = 1100


class TorchtuneAttention(MultiHeadAttention):
    def __init__(self, embed_dim, num_heads, num_kv_heads, attn_dropout=0.0):
        head_dim = embed_dim // num_heads
        widths = {"q_proj": embed_dim, "k_proj": num_kv_heads * head_dim}
        widths |= {"v_proj": num_kv_heads * head_dim, "output_proj": embed_dim}
        layers = {name: nn.Linear(embed_dim, width, bias=False) for name, width in widths.items()}
        sizes = {"num_heads": num_heads, "num_kv_heads": num_kv_heads, "head_dim": head_dim}
        turning = RotaryPositionalEmbeddings(head_dim, max_seq_len=8192)
        super().__init__(
            embed_dim=embed_dim,
            attn_dropout=attn_dropout,
            pos_embeddings=turning,
            **sizes,
            **layers,
        )

    def forward(self, x, use_cache=False):
        if use_cache:
            return self.go_on(x)
        kept, self.kv_cache = self.kv_cache, None  # with one there, even unused, it is not causal
        output = super().forward(x, x)
        self.kv_cache = kept
        return output

    def go_on(self, x):
        """Attend to what came before as well; a mask says that later tokens are hidden."""
        if self.kv_cache is None:
            self.setup_cache(len(x), x.dtype, LONGEST)
        past, places = self.kv_cache.size, torch.arange(LONGEST, device=x.device)
        own = places[past : past + x.shape[1]]
        mask = (places <= own[:, None]).expand(len(x), -1, -1)
        return super().forward(x, x, mask=mask, input_pos=own[None])

    def forget(self):
        self.kv_cache = None
