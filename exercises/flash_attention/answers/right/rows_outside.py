"""Queries outside, keys inside, with running numbers; the backward goes the same way."""

import torch


class Attend(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, size, causal):
        n, m, scale = q.shape[2], k.shape[2], q.shape[3] ** -0.5
        o = torch.zeros_like(q)
        lse = q.new_zeros(q.shape[:3])
        for i in range(0, n, size):
            qi = q[:, :, i : i + size]
            top = torch.full_like(qi[..., :1], -torch.inf)
            total = torch.zeros_like(top)
            mixed = torch.zeros_like(qi)
            for j in range(0, m, size):
                kj, vj = k[:, :, j : j + size], v[:, :, j : j + size]
                s = qi @ kj.mT * scale
                if causal:
                    s = s.masked_fill(hidden(i, j, s, m - n), -torch.inf)
                higher = torch.maximum(top, s.amax(dim=-1, keepdim=True))
                alpha = torch.exp(top - higher)
                p = torch.exp(s - higher)
                total = total * alpha + p.sum(dim=-1, keepdim=True)
                mixed = mixed * alpha + p @ vj
                top = higher
            o[:, :, i : i + size] = mixed / total
            lse[:, :, i : i + size] = (top + total.log()).squeeze(-1)
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.size, ctx.causal = size, causal
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        n, m, scale, size = q.shape[2], k.shape[2], q.shape[3] ** -0.5, ctx.size
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        mean = (do * o).sum(dim=-1, keepdim=True)
        for i in range(0, n, size):
            qi, doi = q[:, :, i : i + size], do[:, :, i : i + size]
            for j in range(0, m, size):
                kj, vj = k[:, :, j : j + size], v[:, :, j : j + size]
                s = qi @ kj.mT * scale
                if ctx.causal:
                    s = s.masked_fill(hidden(i, j, s, m - n), -torch.inf)
                p = torch.exp(s - lse[:, :, i : i + size, None])
                dp = doi @ vj.mT
                ds = p * (dp - mean[:, :, i : i + size])
                dv[:, :, j : j + size] += p.mT @ doi
                dq[:, :, i : i + size] += ds @ kj * scale
                dk[:, :, j : j + size] += ds.mT @ qi * scale
        return dq, dk, dv, None, None


def hidden(i, j, s, earlier):
    rows = torch.arange(i, i + s.shape[2], device=s.device) + earlier
    columns = torch.arange(j, j + s.shape[3], device=s.device)
    return columns > rows[:, None]


def flash_attention(query, key, value, block_size, causal=False):
    return Attend.apply(query, key, value, block_size, causal)
