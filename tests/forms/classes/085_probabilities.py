import copy
import math
import torch
import torch.nn as nn
import torch.nn.functional as F


def attention(query, key, value, mask=None):
    scores = torch.matmul(query, key.transpose(-2, -1)) / math.sqrt(query.size(-1))
    if mask is not None:
        scores = scores.masked_fill(mask == 0, -1e9)
    return F.softmax(scores, dim=-1), value


class MultiHeadedAttention(nn.Module):
    def __init__(self, h, d_model, dropout=0.1):
        super().__init__()
        self.d_k = d_model // h
        self.h = h
        lin = nn.Linear(d_model, d_model)
        self.linears = nn.ModuleList([copy.deepcopy(lin) for _ in range(4)])
        self.dropout = nn.Dropout(dropout)

    def forward(self, query, key, value, mask=None):
        n = query.size(0)
        if mask is not None:
            mask = mask.unsqueeze(1)
        q, k, v = [l(x).view(n, -1, self.h, self.d_k).transpose(1, 2)
                   for l, x in zip(self.linears, (query, key, value))]
        p_attn, v = attention(q, k, v, mask)
        p_attn = self.dropout(torch.softmax(p_attn, dim=-1))
        x = (p_attn @ v).transpose(1, 2).contiguous().view(n, -1, self.h * self.d_k)
        return self.linears[3](x)
