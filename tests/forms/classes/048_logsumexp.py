import torch
from torch import nn


class LogSpaceAttention(nn.Module):
    def __init__(self, width, heads, *, use_bias=True):
        super().__init__()
        self.width, self.heads = width, heads
        self.query = nn.Linear(width, width, bias=use_bias)
        self.key = nn.Linear(width, width, bias=use_bias)
        self.value = nn.Linear(width, width, bias=use_bias)

    def forward(self, x):
        *_, n, w = x.shape
        d = w // self.heads
        q = self.query(x).unflatten(-1, (self.heads, d)) * d ** -0.5
        k = self.key(x).unflatten(-1, (self.heads, d))
        v = self.value(x).unflatten(-1, (self.heads, d))
        logits = torch.einsum("...ihd,...jhd->...hij", q, k)
        visible = torch.ones(n, n, dtype=torch.bool, device=x.device).tril()
        logits = logits.masked_fill(~visible, float("-inf"))
        attn = torch.exp(logits - torch.logsumexp(logits, dim=-1, keepdim=True))
        return torch.einsum("...hij,...jhd->...ihd", attn, v).flatten(-2)
