import torch
from torch import nn


class CausalMHA(nn.Module):
    def __init__(self, embedding_dim=64, n_heads=4, drop_prob=0.1):
        super().__init__()
        self.n_heads = n_heads
        self.proj = nn.ModuleDict({
            name: nn.Linear(embedding_dim, embedding_dim, bias=(name == "out"))
            for name in ("query", "key", "value", "out")
        })
        self.dropout = nn.Dropout(drop_prob)

    def forward(self, x):
        B, T, E = x.shape
        D = E // self.n_heads
        q, k, v = [
            self.proj[n](x).view(B, T, self.n_heads, D).permute(0, 2, 1, 3)
            for n in ("query", "key", "value")
        ]
        energy = torch.einsum("nhqd,nhkd->nhqk", [q, k])
        mask = torch.tril(torch.ones((T, T), device=x.device)).expand(B, 1, T, T)
        energy = energy.masked_fill(mask == 0, float("-1e20"))
        attention = torch.softmax(energy / (D ** (1 / 2)), dim=3)
        attention = self.dropout(attention)
        out = torch.einsum("nhql,nhld->nqhd", [attention, v]).reshape(B, T, E)
        return self.proj["out"](out)
