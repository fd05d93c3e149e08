import torch
from torch import nn
import torch.nn.functional as F

CFG = {"emb_dim": 48, "n_heads": 6, "context_length": 64, "drop_rate": 0.1, "qkv_bias": False}


class Attention(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        d = cfg["emb_dim"]
        self.nh = cfg["n_heads"]
        self.p = cfg["drop_rate"]
        self.qkv = nn.Linear(d, 3 * d, bias=cfg["qkv_bias"])
        self.proj = nn.Linear(d, d)

    def forward(self, x):
        B, T, D = x.shape
        q, k, v = (
            t.view(B, T, self.nh, D // self.nh).transpose(1, 2)
            for t in self.qkv(x).chunk(3, dim=-1)
        )
        y = F.scaled_dot_product_attention(
            q, k, v, dropout_p=self.p if self.training else 0.0, is_causal=True
        )
        return self.proj(y.transpose(1, 2).reshape(B, T, D))


class LayerNorm(nn.Module):
    def __init__(self, emb_dim):
        super().__init__()
        self.eps = 1e-5
        self.scale = nn.Parameter(torch.ones(emb_dim))
        self.shift = nn.Parameter(torch.zeros(emb_dim))

    def forward(self, x):
        mean = x.mean(-1, keepdim=True)
        var = x.var(-1, keepdim=True, unbiased=False)
        return self.scale * (x - mean) / torch.sqrt(var + self.eps) + self.shift
