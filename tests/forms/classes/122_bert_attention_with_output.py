import math
import torch
import torch.nn as nn


class BertAttention(nn.Module):
    def __init__(self, hidden_size=32, num_attention_heads=4, dropout=0.1):
        super().__init__()
        self.h = num_attention_heads
        self.query = nn.Linear(hidden_size, hidden_size)
        self.key = nn.Linear(hidden_size, hidden_size)
        self.value = nn.Linear(hidden_size, hidden_size)
        self.dense = nn.Linear(hidden_size, hidden_size)
        self.LayerNorm = nn.LayerNorm(hidden_size, eps=1e-12)
        self.dropout = nn.Dropout(dropout)

    def forward(self, hidden_states, attention_mask=None):
        b, t, c = hidden_states.shape
        q, k, v = (f(hidden_states).view(b, t, self.h, -1).transpose(1, 2)
                   for f in (self.query, self.key, self.value))
        scores = q @ k.transpose(-1, -2) / math.sqrt(c // self.h)
        if attention_mask is not None:
            scores = scores + (1.0 - attention_mask[:, None, None, :].to(scores.dtype)) * -10000.0
        ctx = self.dropout(scores.softmax(-1)) @ v
        ctx = ctx.transpose(1, 2).reshape(b, t, c)
        return self.LayerNorm(self.dropout(self.dense(ctx)) + hidden_states)
