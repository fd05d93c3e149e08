"""Style: three axes only, the heads folded into the batch; full module path."""

import torch


class FusedCausalSelfAttention(torch.nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        self.block_size, self.n_head, self.n_embd = block_size, n_head, n_embd
        self.c_proj = torch.nn.Linear(n_embd, n_embd)
        self.c_attn = torch.nn.Linear(n_embd, 3 * n_embd)

    def forward(self, x):
        b, t, c = x.shape
        h, d = self.n_head, self.n_embd // self.n_head
        qkv = self.c_attn(x).reshape(b, t, 3, h, d).permute(2, 0, 3, 1, 4).reshape(3, b * h, t, d)
        y = torch.nn.functional.scaled_dot_product_attention(*qkv, None, 0.0, True)
        y = y.reshape(b, h, t, d).permute(0, 2, 1, 3).reshape(b, t, c)
        return self.c_proj(y)
