import torch
from torch import nn
import torch.nn.functional as F


class SelfAttentionBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.hidden = config.get("hidden_dim", 256)
        self.heads = config.get("num_heads", 8)
        self.causal = config.get("causal", True)
        bias = config.get("bias", False)
        self.attn_in = nn.ModuleList(nn.Linear(self.hidden, self.hidden, bias=bias) for _ in range(3))
        self.attn_out = nn.Linear(self.hidden, self.hidden, bias=bias)
        self.p = config.get("dropout", 0.0)

    def forward(self, h):
        q, k, v = (f(h).unflatten(2, (self.heads, self.hidden // self.heads)) for f in self.attn_in)
        s = torch.einsum("bqhc,bkhc->bhqk", q * (q.shape[-1] ** -0.5), k)
        if self.causal:
            n = h.shape[1]
            block = torch.ones(n, n, device=h.device, dtype=torch.bool).triu(1)
            s.masked_fill_(block, -torch.inf)
        a = F.dropout(s.softmax(-1), self.p, self.training)
        y = torch.einsum("bhqk,bkhc->bqhc", a, v).flatten(2)
        return self.attn_out(y)


cfg = dict(hidden_dim=32, num_heads=4)
print(SelfAttentionBlock(cfg)(torch.zeros(1, 3, 32)).shape)
