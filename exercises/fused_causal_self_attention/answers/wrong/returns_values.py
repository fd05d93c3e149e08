"""Returns the value projection; nothing attends to anything. (named: values_returned)"""

from torch import nn


class FusedCausalSelfAttention(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        self.n_embd = n_embd
        self.c_attn = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)

    def forward(self, x):
        return self.c_attn(x)[..., 2 * self.n_embd :]
