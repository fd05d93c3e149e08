"""Returns the value projection; nothing attends to anything. (named: values_returned)"""

from torch import nn


class CausalSelfAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.n_embd = config.n_embd
        self.c_attn = nn.Linear(config.n_embd, 3 * config.n_embd)
        self.c_proj = nn.Linear(config.n_embd, config.n_embd)

    def forward(self, x):
        _, _, value = self.c_attn(x).split(self.n_embd, dim=-1)
        return value
