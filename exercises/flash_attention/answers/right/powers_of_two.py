"""Exponentials to base two, as kernels take them: the scale has the logarithm in it."""

import math

import torch

LOG2_E = math.log2(math.e)


def attend_rows(q, k, v, i, size, shift):
    """Return the output of the block of queries from i on, and its log-sum-exp to base two."""
    rows = q.narrow(2, i, min(size, q.size(2) - i)) * (LOG2_E / math.sqrt(q.size(3)))
    top = rows.new_full((*rows.shape[:3], 1), -math.inf)
    total, mixed = torch.zeros_like(top), torch.zeros_like(rows)
    for j in range(0, k.size(2), size):
        width = min(size, k.size(2) - j)
        s = mask(rows @ k.narrow(2, j, width).mT, i, j, shift)
        higher = torch.maximum(top, s.amax(-1, keepdim=True))
        p, alpha = torch.exp2(s - higher), torch.exp2(top - higher)
        total, top = total * alpha + p.sum(-1, keepdim=True), higher
        mixed = mixed * alpha + p @ v.narrow(2, j, width)
    return mixed / total, top + total.log2()


def mask(s, i, j, shift):
    if shift is None or j + s.size(3) - 1 <= i + shift:
        return s  # all of the tile is visible
    return s.masked_fill(s.new_ones(s.shape[2:]).triu(shift + i - j + 1).bool(), -math.inf)


class BaseTwo(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, size, shift):
        rows = [attend_rows(q, k, v, i, size, shift) for i in range(0, q.size(2), size)]
        out, lse = (torch.cat(parts, dim=2) for parts in zip(*rows))
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.size, ctx.shift = size, shift
        return out

    @staticmethod
    def backward(ctx, do):
        q, k, v, out, lse = ctx.saved_tensors
        scale = 1 / math.sqrt(q.size(3))
        delta = torch.linalg.vecdot(do, out).unsqueeze(-1)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for i in range(0, q.size(2), ctx.size):
            r = slice(i, i + ctx.size)
            for j in range(0, k.size(2), ctx.size):
                c = slice(j, j + ctx.size)
                s = mask(q[:, :, r] @ k[:, :, c].mT * (scale * LOG2_E), i, j, ctx.shift)
                p = torch.exp2(s - lse[:, :, r])
                ds = p * (do[:, :, r] @ v[:, :, c].mT - delta[:, :, r])
                dq[:, :, r] += ds @ k[:, :, c]
                dk[:, :, c] += ds.mT @ q[:, :, r]
                dv[:, :, c] += p.mT @ do[:, :, r]
        return dq * scale, dk * scale, dv, None, None


def flash_attention(query, key, value, block_size, causal=False):
    shift = key.size(2) - query.size(2) if causal else None
    return BaseTwo.apply(query, key, value, block_size, shift)
