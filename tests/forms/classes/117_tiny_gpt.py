import torch
import torch.nn as nn
import torch.nn.functional as F


class DecoderLayer(nn.Module):
    def __init__(self, d, h):
        super().__init__()
        self.sa = nn.MultiheadAttention(d, h, batch_first=True)
        self.ff = nn.Sequential(nn.Linear(d, 4 * d), nn.ReLU(), nn.Linear(4 * d, d))
        self.n1, self.n2 = nn.LayerNorm(d), nn.LayerNorm(d)

    def forward(self, x):
        t = x.size(1)
        m = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        y = self.n1(x)
        x = x + self.sa(y, y, y, attn_mask=m, need_weights=False)[0]
        return x + self.ff(self.n2(x))


class TinyGPT(nn.Module):
    def __init__(self, vocab_size=50, d=32, h=4, layers=2, block_size=16):
        super().__init__()
        self.tok = nn.Embedding(vocab_size, d)
        self.pos = nn.Embedding(block_size, d)
        self.blocks = nn.Sequential(*[DecoderLayer(d, h) for _ in range(layers)])
        self.ln_f = nn.LayerNorm(d)
        self.lm_head = nn.Linear(d, vocab_size, bias=False)

    def forward(self, idx, targets=None):
        b, t = idx.shape
        x = self.tok(idx) + self.pos(torch.arange(t, device=idx.device))
        logits = self.lm_head(self.ln_f(self.blocks(x)))
        loss = None
        if targets is not None:
            loss = F.cross_entropy(logits.view(b * t, -1), targets.view(-1))
        return logits, loss
