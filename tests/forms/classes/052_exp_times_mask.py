import torch
import torch.nn as nn


class EncoderAttention(nn.Module):
    def __init__(self, size, num_heads):
        super().__init__()
        self.num_heads = num_heads
        self.head_size = size // num_heads
        self.k_layer = nn.Linear(size, size)
        self.v_layer = nn.Linear(size, size)
        self.q_layer = nn.Linear(size, size)
        self.output_layer = nn.Linear(size, size)

    def forward(self, x, mask=None):
        b, t, size = x.shape
        k = self.k_layer(x).view(b, t, self.num_heads, self.head_size).transpose(1, 2)
        v = self.v_layer(x).view(b, t, self.num_heads, self.head_size).transpose(1, 2)
        q = self.q_layer(x).view(b, t, self.num_heads, self.head_size).transpose(1, 2)
        q = q / self.head_size ** 0.5
        scores = torch.matmul(q, k.transpose(2, 3))
        e = torch.exp(scores - scores.amax(dim=-1, keepdim=True))
        if mask is not None:
            e = e * mask[:, None, None, :].to(e.dtype)
        attn = e / e.sum(dim=-1, keepdim=True)
        ctx = torch.matmul(attn, v).transpose(1, 2).contiguous().view(b, t, size)
        return self.output_layer(ctx)
