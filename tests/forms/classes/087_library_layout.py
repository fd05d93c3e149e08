import torch
from torch import nn


class SelfAttention(nn.Module):
    """Self attention over a batch of sentences.

    Input and output: (batch, tokens, features)
    """

    def __init__(self, embed_dim, num_heads, dropout=0.0):
        super().__init__()
        self.attn = nn.MultiheadAttention(embed_dim, num_heads, dropout=dropout)

    def forward(self, x):
        out, _ = self.attn(x, x, x, need_weights=False)
        return out


class Classifier(nn.Module):
    def __init__(self, embed_dim, num_heads, n_classes):
        super().__init__()
        self.sa = SelfAttention(embed_dim, num_heads)
        self.head = nn.Linear(embed_dim, n_classes)

    def forward(self, x):
        return self.head(self.sa(x).mean(1))
