import torch
from torch import nn
import torch.nn.functional as F


class FoldedAttention(nn.Module):
    """x: (batch, time, embed)"""

    def __init__(self, embed_dim, num_heads):
        super().__init__()
        self.embed_dim, self.num_heads = embed_dim, num_heads
        self.head_dim = embed_dim // num_heads
        self.q_proj = nn.Linear(embed_dim, embed_dim)
        self.k_proj = nn.Linear(embed_dim, embed_dim)
        self.v_proj = nn.Linear(embed_dim, embed_dim)
        self.out_proj = nn.Linear(embed_dim, embed_dim)

    def forward(self, x):
        bsz, tgt_len, _ = x.size()
        q = self.q_proj(x) * self.head_dim ** -0.5
        k = self.k_proj(x)
        v = self.v_proj(x)
        q = q.view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        probs = F.softmax(torch.bmm(q, k.transpose(1, 2)), dim=-1)
        attn = torch.bmm(probs, v)
        attn = attn.transpose(0, 1).contiguous().view(bsz, tgt_len, self.embed_dim)
        return self.out_proj(attn)
