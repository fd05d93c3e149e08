import torch
import torch.nn as nn


class RelativeBiasAttention(nn.Module):
    def __init__(self, d_model=32, n_heads=4, max_distance=8):
        super().__init__()
        self.n_heads, self.max_distance = n_heads, max_distance
        self.q = nn.Linear(d_model, d_model, bias=False)
        self.k = nn.Linear(d_model, d_model, bias=False)
        self.v = nn.Linear(d_model, d_model, bias=False)
        self.o = nn.Linear(d_model, d_model, bias=False)
        self.relative_attention_bias = nn.Embedding(2 * max_distance + 1, n_heads)

    def forward(self, x):
        b, t, c = x.shape
        q, k, v = (f(x).view(b, t, self.n_heads, -1).transpose(1, 2) for f in (self.q, self.k, self.v))
        pos = torch.arange(t, device=x.device)
        rel = (pos[None, :] - pos[:, None]).clamp(-self.max_distance, self.max_distance) + self.max_distance
        bias = self.relative_attention_bias(rel).permute(2, 0, 1)
        attn = (q @ k.transpose(-1, -2) + bias).softmax(dim=-1)
        return self.o((attn @ v).transpose(1, 2).reshape(b, t, c))
