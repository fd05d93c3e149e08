import torch
import torch.nn as nn


class SelfAttention(nn.Module):
    def __init__(self, d_model, d_k):
        super().__init__()
        self.scale = d_k ** -0.5
        self.Wq = nn.Linear(d_model, d_k)
        self.Wk = nn.Linear(d_model, d_k)
        self.Wv = nn.Linear(d_model, d_k)
        self.Wo = nn.Linear(d_k, d_model)

    def forward(self, x):
        q, k, v = self.Wq(x), self.Wk(x), self.Wv(x)
        attn = torch.softmax(torch.bmm(q, k.permute(0, 2, 1)) * self.scale, dim=-1)
        out = torch.bmm(attn.permute(0, 2, 1), v)
        return self.Wo(out)


class Encoder(nn.Module):
    def __init__(self, vocab, d_model=32):
        super().__init__()
        self.emb = nn.Embedding(vocab, d_model)
        self.att = SelfAttention(d_model, d_model)

    def forward(self, ids):
        return self.att(self.emb(ids))
