from dataclasses import dataclass

import torch
from torch import nn


@dataclass
class Config:
    d_model: int = 24
    d_head: int = 6
    n_heads: int = 4
    init_range: float = 0.2


class EinsumAttention(nn.Module):
    def __init__(self, cfg: Config):
        super().__init__()
        self.cfg = cfg
        H, D, K = cfg.n_heads, cfg.d_model, cfg.d_head
        self.W_Q = nn.Parameter(torch.empty(H, D, K))
        self.W_K = nn.Parameter(torch.empty(H, D, K))
        self.W_V = nn.Parameter(torch.empty(H, D, K))
        self.W_O = nn.Parameter(torch.empty(H, K, D))
        for w in (self.W_Q, self.W_K, self.W_V, self.W_O):
            nn.init.normal_(w, std=cfg.init_range)
        self.b_Q = nn.Parameter(torch.zeros(H, K))
        self.b_K = nn.Parameter(torch.zeros(H, K))
        self.b_V = nn.Parameter(torch.zeros(H, K))
        self.b_O = nn.Parameter(torch.zeros(D))
        self.register_buffer("IGNORE", torch.tensor(-1e5))

    def forward(self, normalized_resid_pre):
        x = normalized_resid_pre
        q = torch.einsum("bpd,hdk->bphk", x, self.W_Q) + self.b_Q
        k = torch.einsum("bpd,hdk->bphk", x, self.W_K) + self.b_K
        v = torch.einsum("bpd,hdk->bphk", x, self.W_V) + self.b_V
        scores = torch.einsum("bqhk,bshk->bhqs", q, k) / self.cfg.d_head ** 0.5
        scores = self.apply_causal_mask(scores)
        pattern = scores.softmax(-1)
        z = torch.einsum("bhqs,bshk->bqhk", pattern, v)
        return torch.einsum("bqhk,hkd->bqd", z, self.W_O) + self.b_O

    def apply_causal_mask(self, scores):
        ones = torch.ones(scores.size(-2), scores.size(-1), device=scores.device)
        return scores.masked_fill(torch.triu(ones, diagonal=1).bool(), self.IGNORE)
