import torch
from torch import nn


class CausalWrapper(nn.Module):
    def __init__(self, d_out, context_length, num_heads, dropout=0.0, qkv_bias=False, need_weights=False):
        super().__init__()
        self.context_length = context_length
        self.need_weights = need_weights
        self.multihead_attn = nn.MultiheadAttention(
            embed_dim=d_out,
            num_heads=num_heads,
            dropout=dropout,
            bias=qkv_bias,
            batch_first=True,
        )
        self.proj = nn.Linear(d_out, d_out)
        self.register_buffer(
            "mask", torch.triu(torch.ones(context_length, context_length), diagonal=1).bool()
        )

    def forward(self, x):
        num_tokens = x.size(1)
        if num_tokens <= self.context_length:
            attn_mask = self.mask[:num_tokens, :num_tokens]
        else:
            attn_mask = torch.ones(num_tokens, num_tokens, device=x.device).triu(1).bool()
        out, _ = self.multihead_attn(x, x, x, attn_mask=attn_mask, need_weights=self.need_weights)
        return self.proj(out)
