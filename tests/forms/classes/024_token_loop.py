import torch
import torch.nn as nn


class TokenLoopAttention(nn.Module):
    # slow but very clear: position i looks at 0..i
    def __init__(self, d_model, d_k):
        super().__init__()
        self.q = nn.Linear(d_model, d_k)
        self.k = nn.Linear(d_model, d_k)
        self.v = nn.Linear(d_model, d_k)
        self.o = nn.Linear(d_k, d_model)
        self.d_k = d_k

    def forward(self, x):
        B, T, _ = x.shape
        Q, K, V = self.q(x), self.k(x), self.v(x)
        rows = []
        for i in range(T):
            qi = Q[:, i]                                # (B, d_k)
            past_k = K[:, : i + 1]                      # (B, i+1, d_k)
            past_v = V[:, : i + 1]
            s = (past_k * qi.unsqueeze(1)).sum(-1) / self.d_k ** 0.5
            a = torch.softmax(s, dim=1)
            rows.append((a.unsqueeze(-1) * past_v).sum(1))
        return self.o(torch.stack(rows, dim=1))


if __name__ == '__main__':
    m = TokenLoopAttention(16, 8)
    x = torch.randn(2, 5, 16)
    y1 = m(x)
    x[:, 3:] += 1
    assert torch.allclose(y1[:, :3], m(x)[:, :3])
