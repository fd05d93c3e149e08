"""Nothing written yet: constructors and forwards are empty."""

from torch import nn


class Head(nn.Module):
    def __init__(self, block_size, n_embd, head_size):
        super().__init__()
        ...  # your code here

    def forward(self, x):
        pass  # your code here


class MultiHead(nn.Module):
    def __init__(self, block_size, n_head, n_embd):
        super().__init__()
        ...  # your code here

    def forward(self, x):
        pass  # your code here
