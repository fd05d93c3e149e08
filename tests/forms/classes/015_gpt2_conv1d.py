import torch
import torch.nn as nn
from types import SimpleNamespace


class Conv1D(nn.Module):
    def __init__(self, nf, nx):
        super().__init__()
        self.nf = nf
        self.weight = nn.Parameter(torch.randn(nx, nf) * 0.02)
        self.bias = nn.Parameter(torch.zeros(nf))

    def forward(self, x):
        out_shape = x.size()[:-1] + (self.nf,)
        x = torch.addmm(self.bias, x.reshape(-1, x.size(-1)), self.weight)
        return x.view(out_shape)


class GPT2Attention(nn.Module):
    def __init__(self, config):
        super().__init__()
        nx, n_ctx = config.n_embd, config.n_positions
        self.register_buffer("causal", torch.tril(torch.ones(n_ctx, n_ctx, dtype=torch.bool)).view(1, 1, n_ctx, n_ctx))
        self.n_head = config.n_head
        self.split_size = nx
        self.c_attn = Conv1D(3 * nx, nx)
        self.c_proj = Conv1D(nx, nx)
        self.attn_dropout = nn.Dropout(config.attn_pdrop)
        self.resid_dropout = nn.Dropout(config.resid_pdrop)

    def _heads(self, x):
        return x.view(*x.shape[:2], self.n_head, -1).permute(0, 2, 1, 3)

    def forward(self, x):
        query, key, value = map(self._heads, self.c_attn(x).split(self.split_size, dim=2))
        w = torch.matmul(query, key.transpose(-1, -2)) / (value.size(-1) ** 0.5)
        t = w.size(-1)
        w = torch.where(self.causal[:, :, :t, :t], w, torch.full_like(w, -1e4))
        w = self.attn_dropout(nn.functional.softmax(w, dim=-1))
        a = torch.matmul(w, value).permute(0, 2, 1, 3).contiguous()
        a = a.view(*a.shape[:2], -1)
        return self.resid_dropout(self.c_proj(a)), None


config = SimpleNamespace(n_embd=32, n_head=4, n_positions=64, attn_pdrop=0.1, resid_pdrop=0.1)
