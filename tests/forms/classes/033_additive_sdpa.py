import torch
import torch.nn as nn
import torch.nn.functional as F


def generate_square_subsequent_mask(sz, dtype=torch.float32):
    return torch.triu(torch.full((sz, sz), float("-inf"), dtype=dtype), diagonal=1)


class SDPAttention(nn.Module):
    def __init__(self, model_dim, nhead, dropout=0.0):
        super().__init__()
        self.nhead = nhead
        self.dropout = dropout
        self.wq = nn.Linear(model_dim, model_dim)
        self.wk = nn.Linear(model_dim, model_dim)
        self.wv = nn.Linear(model_dim, model_dim)
        self.wo = nn.Linear(model_dim, model_dim)

    def forward(self, src, src_mask=None):
        n, s, e = src.shape
        q = self.wq(src).view(n, s, self.nhead, -1).transpose(1, 2)
        k = self.wk(src).view(n, s, self.nhead, -1).transpose(1, 2)
        v = self.wv(src).view(n, s, self.nhead, -1).transpose(1, 2)
        p = self.dropout if self.training else 0.0
        out = F.scaled_dot_product_attention(q, k, v, attn_mask=src_mask, dropout_p=p)
        return self.wo(out.transpose(1, 2).contiguous().view(n, s, e))


if __name__ == "__main__":
    a = SDPAttention(32, 4)
    print(a(torch.randn(2, 9, 32), generate_square_subsequent_mask(9)).shape)
