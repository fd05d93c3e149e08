import torch
from torch import nn
import torch.nn.functional as F


class MultiheadAttention(nn.Module):
    """Inputs are Time x Batch x Channel."""

    def __init__(self, embed_dim, num_heads, dropout=0., bias=True):
        super().__init__()
        self.embed_dim = embed_dim
        self.num_heads = num_heads
        self.dropout = dropout
        self.head_dim = embed_dim // num_heads
        assert self.head_dim * num_heads == embed_dim
        self.scaling = self.head_dim ** -0.5
        self.in_proj_weight = nn.Parameter(torch.empty(3 * embed_dim, embed_dim))
        self.in_proj_bias = nn.Parameter(torch.zeros(3 * embed_dim)) if bias else None
        self.out_proj = nn.Linear(embed_dim, embed_dim, bias=bias)
        nn.init.xavier_uniform_(self.in_proj_weight)

    def _in_proj(self, x, start, end):
        bias = self.in_proj_bias
        return F.linear(x, self.in_proj_weight[start:end], None if bias is None else bias[start:end])

    def forward(self, query, key, value, key_padding_mask=None, attn_mask=None):
        tgt_len, bsz, embed_dim = query.size()
        src_len = key.size(0)
        E = self.embed_dim
        q = self._in_proj(query, 0, E) * self.scaling
        k = self._in_proj(key, E, 2 * E)
        v = self._in_proj(value, 2 * E, 3 * E)
        q = q.contiguous().view(tgt_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        k = k.contiguous().view(src_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)
        v = v.contiguous().view(src_len, bsz * self.num_heads, self.head_dim).transpose(0, 1)

        w = torch.bmm(q, k.transpose(1, 2))
        if attn_mask is not None:
            w = w + attn_mask.unsqueeze(0)
        if key_padding_mask is not None:
            w = w.view(bsz, self.num_heads, tgt_len, src_len)
            w = w.masked_fill(key_padding_mask[:, None, None, :], float('-inf'))
            w = w.view(bsz * self.num_heads, tgt_len, src_len)
        w = F.softmax(w, dim=-1)
        w = F.dropout(w, p=self.dropout, training=self.training)
        attn = torch.bmm(w, v).transpose(0, 1).contiguous().view(tgt_len, bsz, embed_dim)
        weights = w.view(bsz, self.num_heads, tgt_len, src_len).mean(dim=1)
        return self.out_proj(attn), weights
