"""In plain loops: over sequences, heads, queries and keys."""

import torch
import torch.nn as nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_model=512, num_heads=8):
        super().__init__()
        self.d_model = d_model
        self.num_heads = num_heads
        self.d_k = d_model // num_heads

        self.W_q = nn.Linear(d_model, d_model)
        self.W_k = nn.Linear(d_model, d_model)
        self.W_v = nn.Linear(d_model, d_model)
        self.W_o = nn.Linear(d_model, d_model)

    def split_heads(self, x):
        batch_size, seq_len, _ = x.shape
        x = x.view(batch_size, seq_len, self.num_heads, self.d_k)
        return x.transpose(1, 2)

    def forward(self, x, mask=None):
        batch_size, seq_len, _ = x.shape
        Q = self.split_heads(self.W_q(x))  # (batch, heads, seq_len, d_k)
        K = self.split_heads(self.W_k(x))
        V = self.split_heads(self.W_v(x))
        shape = (batch_size, self.num_heads, seq_len, seq_len)
        hidden = None if mask is None else (mask == 0).expand(shape)

        outputs, weights = [], []
        for n in range(batch_size):
            for h in range(self.num_heads):
                for i in range(seq_len):
                    scores = [Q[n, h, i] @ K[n, h, j] / self.d_k**0.5 for j in range(seq_len)]
                    scores = torch.stack(scores)
                    if hidden is not None:
                        scores = scores.masked_fill(hidden[n, h, i], float("-inf"))
                    row = torch.softmax(scores, dim=0)
                    weights.append(row)
                    output = 0
                    for j in range(seq_len):
                        output = output + row[j] * V[n, h, j]
                    outputs.append(output)

        context = torch.stack(outputs).view(batch_size, self.num_heads, seq_len, self.d_k)
        context = context.transpose(1, 2).reshape(batch_size, seq_len, self.d_model)
        return self.W_o(context), torch.stack(weights).view(shape)
