import torch
import torch.nn as nn
import torch.nn.functional as F


class DecoderSelfAttention(nn.Module):
    def __init__(self, n_embd, n_head, max_pos=256, attn_pdrop=0.1, resid_pdrop=0.1):
        super().__init__()
        self.n_head = n_head
        self.d = n_embd // n_head
        self.k_lin = nn.Linear(n_embd, n_embd, bias=False)
        self.v_lin = nn.Linear(n_embd, n_embd, bias=False)
        self.q_lin = nn.Linear(n_embd, n_embd, bias=False)
        self.out_lin = nn.Linear(n_embd, n_embd)
        self.attn_dropout = nn.Dropout(attn_pdrop)
        self.resid_dropout = nn.Dropout(resid_pdrop)
        self.register_buffer("allowed", torch.ones(max_pos, max_pos).tril().bool(), persistent=False)

    def forward(self, x, attention_mask=None):
        b, t, c = x.shape
        split = lambda z: z.view(b, t, self.n_head, self.d).transpose(1, 2)
        q, k, v = split(self.q_lin(x)), split(self.k_lin(x)), split(self.v_lin(x))
        keep = self.allowed[None, None, :t, :t]
        if attention_mask is not None:
            keep = keep & attention_mask.bool()[:, None, None, :]
        scores = q @ k.transpose(-1, -2) / self.d ** 0.5
        scores = scores.masked_fill(~keep, torch.finfo(scores.dtype).min)
        weights = self.attn_dropout(F.softmax(scores, dim=-1))
        y = (weights @ v).transpose(1, 2).contiguous().view(b, t, c)
        return self.resid_dropout(self.out_lin(y)), weights
