import math
import torch
import torch.nn as nn


def attention(value, key, query, mask=None):
    d_k = query.size(-1)
    scores = query @ key.transpose(-2, -1) / math.sqrt(d_k)
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    p = scores.softmax(-1)
    return p @ value, p


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model):
        super().__init__()
        self.h, self.d_k = h, d_model // h
        self.query_layer = nn.Linear(d_model, d_model)
        self.key_layer = nn.Linear(d_model, d_model)
        self.value_layer = nn.Linear(d_model, d_model)
        self.output_layer = nn.Linear(d_model, d_model)

    def _heads(self, x):
        return x.view(x.size(0), -1, self.h, self.d_k).transpose(1, 2)

    def forward(self, query, key, value, mask=None):
        q = self._heads(self.query_layer(query))
        k = self._heads(self.key_layer(key))
        v = self._heads(self.value_layer(value))
        x, _ = attention(q, k, v, mask)
        x = x.transpose(1, 2).reshape(query.size(0), -1, self.h * self.d_k)
        return self.output_layer(x)
