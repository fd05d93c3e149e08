import torch
import torch.nn as nn


class CachedAttention(nn.Module):
    def __init__(self, dim, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.hd = dim // n_heads
        self.wq = nn.Linear(dim, dim, bias=False)
        self.wk = nn.Linear(dim, dim, bias=False)
        self.wv = nn.Linear(dim, dim, bias=False)
        self.wo = nn.Linear(dim, dim, bias=False)

    def forward(self, x, past=None):
        b, t, d = x.shape
        q = self.wq(x).view(b, t, self.n_heads, self.hd).transpose(1, 2)
        k = self.wk(x).view(b, t, self.n_heads, self.hd).transpose(1, 2)
        v = self.wv(x).view(b, t, self.n_heads, self.hd).transpose(1, 2)
        if past is not None:
            k = torch.cat([past[0], k], dim=2)
            v = torch.cat([past[1], v], dim=2)
        s = k.shape[2]
        scores = q @ k.transpose(-1, -2) * self.hd ** -0.5
        # query i sits at absolute position s - t + i
        q_pos = torch.arange(s - t, s, device=x.device)[:, None]
        k_pos = torch.arange(s, device=x.device)[None, :]
        scores = scores.masked_fill(k_pos > q_pos, float("-inf"))
        y = scores.softmax(-1) @ v
        y = y.transpose(1, 2).reshape(b, t, d)
        return self.wo(y), (k, v)


if __name__ == "__main__":
    m = CachedAttention(16, 2)
    x = torch.randn(1, 6, 16)
    full, _ = m(x)
    _, cache = m(x[:, :4])
    rest, _ = m(x[:, 4:], cache)
    assert torch.allclose(full[:, 4:], rest, atol=1e-6)
