import torch
import torch.nn as nn
import torch.nn.functional as F


class MaskedMHA(nn.Module):
    def __init__(self, cfg):
        super().__init__()
        self.emb = cfg["emb_dim"]
        self.h = cfg["n_heads"]
        self.qkv = nn.Linear(self.emb, 3 * self.emb, bias=cfg["qkv_bias"])
        self.proj = nn.Linear(self.emb, self.emb)
        self.drop = nn.Dropout(cfg["drop_rate"])
        L = cfg["context_length"]
        self.register_buffer("mask", torch.tril(torch.ones(L, L)).bool())

    def forward(self, x):
        b, n, _ = x.shape
        q, k, v = self.qkv(x).view(b, n, 3, self.h, self.emb // self.h).permute(2, 0, 3, 1, 4)
        att = (q @ k.transpose(-2, -1)) / (self.emb // self.h) ** 0.5
        att = att.masked_fill(~self.mask[:n, :n], 0.0)
        att = self.drop(F.softmax(att, dim=-1))
        return self.proj((att @ v).transpose(1, 2).reshape(b, n, self.emb))


SMALL = {"emb_dim": 32, "n_heads": 4, "qkv_bias": False, "drop_rate": 0.0, "context_length": 16}
