import torch
import torch.nn as nn


class SentenceAttention(nn.Module):
    def __init__(self, hidden_size, heads):
        super().__init__()
        self.heads = heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)

    def forward(self, x, attention_mask=None):
        b, t, c = x.shape
        q = self.query(x)
        k = self.key(x)
        v = self.value(x)
        if attention_mask is not None:
            v = v * attention_mask.unsqueeze(-1).to(v.dtype)
        q, k, v = [z.view(b, t, self.heads, c // self.heads).permute(0, 2, 1, 3) for z in (q, k, v)]
        probs = torch.softmax(q @ k.permute(0, 1, 3, 2) / (c // self.heads) ** 0.5, dim=-1)
        return self.dense((probs @ v).permute(0, 2, 1, 3).reshape(b, t, c))
