"""Both maps as further heads whose values are repeated, and a group norm's shape for the norm."""

import torch
from torch import nn


class DiffAttention(nn.Module):
    def __init__(self, embed_dim, inner_dim, num_heads):
        super().__init__()
        self.heads = num_heads
        self.q_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.k_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.v_proj = nn.Linear(embed_dim, inner_dim, bias=False)
        self.out_proj = nn.Linear(inner_dim, inner_dim, bias=False)
        self.lambda_full = nn.Parameter(torch.ones(num_heads) * 0.8)
        self.subln = nn.RMSNorm(inner_dim // num_heads, eps=1e-5)

    def forward(self, x):
        n = x.shape[1]
        q, k = (p(x).unflatten(-1, (2 * self.heads, -1)) for p in (self.q_proj, self.k_proj))
        v = self.v_proj(x).unflatten(-1, (self.heads, -1)).repeat_interleave(2, dim=2)
        scores = torch.einsum("bihd,bjhd->bhij", q, k).div(q.shape[-1] ** 0.5)
        seen = torch.tril(torch.ones(n, n, dtype=torch.bool, device=x.device))
        weights = torch.where(seen, scores, -torch.inf).softmax(-1)
        both = torch.einsum("bhij,bjhd->bihd", weights, v).unflatten(2, (self.heads, 2))
        given = both[..., 0, :] - self.lambda_full[:, None] * both[..., 1, :]
        size = given.square().sum(-1, keepdim=True).div(given.shape[-1]).add(self.subln.eps).sqrt()
        return self.out_proj((given / size * self.subln.weight * (1 - 0.8)).flatten(2))
