"""Passes the root of the head size itself as the scale. (named: scale_multiplied)"""

from torch import cat, nn
from torch.nn.functional import scaled_dot_product_attention as attend


class FusedCausalSelfAttention(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        self.n_head = n_head
        self.width = n_embd
        self.c_attn = nn.Linear(n_embd, n_embd * 3)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        qkv = self.c_attn(x)
        query = qkv[:, :, : self.width]
        key = qkv[:, :, self.width : 2 * self.width]
        value = qkv[:, :, 2 * self.width :]
        heads = zip(
            query.chunk(self.n_head, dim=-1),
            key.chunk(self.n_head, dim=-1),
            value.chunk(self.n_head, dim=-1),
            strict=True,
        )
        outputs = [attend(q, k, v, is_causal=True, scale=q.shape[-1] ** 0.5) for q, k, v in heads]
        return self.c_proj(cat(outputs, dim=-1))
