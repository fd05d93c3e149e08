import torch
from torch import nn


class DecoderAttention(nn.Module):
    def __init__(self, n_heads, d_model):
        super().__init__()
        self.n_heads = n_heads
        self.d_head = d_model // n_heads
        self.query = nn.Linear(d_model, d_model)
        self.key = nn.Linear(d_model, d_model)
        self.value = nn.Linear(d_model, d_model)
        self.projection = nn.Linear(d_model, d_model)

    def forward(self, x):
        batch, seq, d_model = x.size()
        q = self.query(x).view(batch, seq, self.n_heads, self.d_head).transpose(1, 2)
        k = self.key(x).view(batch, seq, self.n_heads, self.d_head).transpose(1, 2)
        v = self.value(x).view(batch, seq, self.n_heads, self.d_head).transpose(1, 2)
        scores = torch.matmul(q, k.transpose(-1, -2)) / self.d_head ** 0.5
        causal = torch.tril(torch.ones(seq, seq, dtype=x.dtype, device=x.device))
        scores = scores * causal        # remove the future
        weights = torch.softmax(scores, dim=-1)
        out = torch.matmul(weights, v).transpose(1, 2).reshape(batch, seq, d_model)
        return self.projection(out), weights
