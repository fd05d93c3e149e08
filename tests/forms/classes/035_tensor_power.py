import torch
import torch.nn as nn
import torch.nn.functional as F


class Attn(nn.Module):
    def __init__(self, n_embd, n_head, block_size):
        super().__init__()
        self.n_head = n_head
        self.kqv = nn.Linear(n_embd, 3 * n_embd)
        self.c_proj = nn.Linear(n_embd, n_embd)
        self.register_buffer("root", torch.tensor((n_embd // n_head) ** 0.5))
        self.register_buffer("tri", torch.tril(torch.ones(block_size, block_size, dtype=torch.bool)))

    def forward(self, x):
        B, T, C = x.shape
        k, q, v = self.kqv(x).chunk(3, -1)
        q = q.reshape(B, T, self.n_head, -1).permute(0, 2, 1, 3)
        k = k.reshape(B, T, self.n_head, -1).permute(0, 2, 3, 1)
        v = v.reshape(B, T, self.n_head, -1).permute(0, 2, 1, 3)
        s = (q @ k) / self.root
        s = s.masked_fill(self.tri[:T, :T].logical_not(), -1e9)
        y = F.softmax(s, dim=-1) @ v
        return self.c_proj(y.permute(0, 2, 1, 3).reshape(B, T, C))
