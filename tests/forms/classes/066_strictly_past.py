import torch
import torch.nn as nn


class LMHeadAttention(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.nh = config.n_head
        self.q = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.k = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.v = nn.Linear(config.n_embd, config.n_embd, bias=False)
        self.o = nn.Linear(config.n_embd, config.n_embd, bias=False)
        mask = torch.tril(torch.ones(config.block_size, config.block_size), diagonal=-1)
        self.register_buffer("mask", mask.bool())

    def forward(self, x):
        B, T, C = x.shape
        hd = C // self.nh
        q = self.q(x).view(B, T, self.nh, hd).transpose(1, 2)
        k = self.k(x).view(B, T, self.nh, hd).transpose(1, 2)
        v = self.v(x).view(B, T, self.nh, hd).transpose(1, 2)
        scores = (q @ k.transpose(2, 3)) * hd ** -0.5
        scores = torch.where(self.mask[:T, :T], scores, torch.full_like(scores, -1e9))
        w = torch.softmax(scores, dim=-1)
        return self.o((w @ v).transpose(1, 2).contiguous().view(B, T, C))


class DecoderBlock(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.ln = nn.LayerNorm(config.n_embd)
        self.attn = LMHeadAttention(config)

    def forward(self, x):
        return x + self.attn(self.ln(x))
