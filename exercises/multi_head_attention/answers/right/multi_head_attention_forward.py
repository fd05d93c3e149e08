"""Projects first and hands identity matrices to F.multi_head_attention_forward."""

import torch
import torch.nn.functional as F
from torch import nn


class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        if d_out % num_heads != 0:
            raise ValueError("embed_dim must be divisible by num_heads")
        self.d_out = d_out
        self.num_heads = num_heads
        self.p = dropout
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)

    def forward(self, x):
        # the function wants tokens first and as wide an input as an output, so the
        # projections are done here and it is given matrices that change nothing
        q, k, v = (w(x).transpose(0, 1) for w in (self.W_query, self.W_key, self.W_value))
        tokens = x.shape[1]
        mask = torch.ones(tokens, tokens, dtype=torch.bool, device=x.device).triu(1)
        eye = torch.eye(self.d_out, dtype=q.dtype, device=q.device)
        out, _ = F.multi_head_attention_forward(
            q,
            k,
            v,
            embed_dim_to_check=self.d_out,
            num_heads=self.num_heads,
            in_proj_weight=None,
            in_proj_bias=None,
            bias_k=None,
            bias_v=None,
            add_zero_attn=False,
            dropout_p=self.p,
            out_proj_weight=self.out_proj.weight,
            out_proj_bias=self.out_proj.bias,
            training=self.training,
            need_weights=False,
            attn_mask=mask,
            use_separate_proj_weight=True,
            q_proj_weight=eye,
            k_proj_weight=eye,
            v_proj_weight=eye,
        )
        return out.transpose(0, 1)
