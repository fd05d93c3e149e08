import torch
import torch.nn as nn


class ALiBiAttention(nn.Module):
    def __init__(self, d_model, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.kqv = nn.Linear(d_model, 3 * d_model, bias=False)
        self.out = nn.Linear(d_model, d_model)
        slopes = torch.tensor([2 ** (-8 * (i + 1) / num_heads) for i in range(num_heads)])
        self.register_buffer("m", slopes.view(num_heads, 1, 1))

    def forward(self, x):
        b, t, c = x.shape
        k, q, v = self.kqv(x).chunk(3, -1)
        q, k, v = (z.view(b, t, self.num_heads, -1).transpose(1, 2) for z in (q, k, v))
        pos = torch.arange(t, device=x.device)
        distance = (pos[None, :] - pos[:, None]).to(x.dtype)      # j - i, negative in the past
        score = q @ k.transpose(-1, -2) / (c // self.num_heads) ** 0.5 + self.m * distance
        score = score.masked_fill(distance > 0, float("-inf"))
        y = score.softmax(-1) @ v
        return self.out(y.transpose(1, 2).reshape(b, t, c))
