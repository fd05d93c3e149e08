"""Every token sees the whole sequence. (named: no_mask)"""

from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        c = config.n_embd
        self.h = config.n_head
        self.c_attn, self.c_proj = nn.Linear(c, 3 * c), nn.Linear(c, c)

    def forward(self, x):
        b, t, c = x.shape
        d = c // self.h
        q, k, v = (z.reshape(b, t, self.h, d).swapaxes(1, 2) for z in self.c_attn(x).chunk(3, -1))
        a = (q @ k.mT / d**0.5).softmax(-1)
        return self.c_proj((a @ v).swapaxes(1, 2).reshape(b, t, c))
