import math
import torch
import torch.nn as nn
import torch.nn.functional as F


class SelfAttention(nn.Module):
    def __init__(self, n_state, n_head):
        super().__init__()
        self.n_head = n_head
        self.n_state = n_state
        self.wq = nn.Linear(n_state, n_state)
        self.wk = nn.Linear(n_state, n_state)
        self.wv = nn.Linear(n_state, n_state)
        self.wo = nn.Linear(n_state, n_state)
        self.root = int(math.sqrt(n_state // n_head))

    def forward(self, x):
        b, t, c = x.shape
        q = self.wq(x).view(b, t, self.n_head, -1).transpose(1, 2)
        k = self.wk(x).view(b, t, self.n_head, -1).transpose(1, 2)
        v = self.wv(x).view(b, t, self.n_head, -1).transpose(1, 2)
        y = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=1.0 / self.root)
        return self.wo(y.transpose(1, 2).reshape(b, t, c))
