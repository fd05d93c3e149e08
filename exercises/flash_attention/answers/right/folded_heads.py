"""Batch and heads folded into one axis, products by torch.bmm and torch.baddbmm."""

import torch


class Folded(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, size, shift):
        b, n, d = q.shape
        o, lse = torch.empty_like(q), q.new_empty(b, n, 1)
        for i in range(0, n, size):
            qi = q[:, i : i + size] * d**-0.5
            m = qi.new_full((b, qi.shape[1], 1), -torch.inf)
            l, acc = torch.zeros_like(m), torch.zeros_like(qi)
            for j in range(0, k.shape[1], size):
                s = hide(torch.bmm(qi, k[:, j : j + size].mT), i, j, shift)
                top = torch.maximum(m, s.amax(2, keepdim=True))
                p, c = (s - top).exp(), (m - top).exp()
                l, m = l * c + p.sum(2, keepdim=True), top
                acc = torch.baddbmm(acc * c, p, v[:, j : j + size])
            o[:, i : i + size], lse[:, i : i + size] = acc / l, m + l.log()
        ctx.save_for_backward(q, k, v, o, lse)
        ctx.rest = size, shift
        return o

    @staticmethod
    def backward(ctx, do):
        q, k, v, o, lse = ctx.saved_tensors
        size, shift = ctx.rest
        scaled = q * q.shape[2] ** -0.5
        delta = (do * o).sum(2, keepdim=True)
        dq, dk, dv = (torch.zeros_like(t) for t in (q, k, v))
        for j in range(0, k.shape[1], size):
            for i in range(0, q.shape[1], size):
                r, c = slice(i, i + size), slice(j, j + size)
                s = hide(torch.bmm(scaled[:, r], k[:, c].mT), i, j, shift)
                p = (s - lse[:, r]).exp()
                ds = p * torch.baddbmm(-delta[:, r], do[:, r], v[:, c].mT)
                dv[:, c].baddbmm_(p.mT, do[:, r])
                dk[:, c].baddbmm_(ds.mT, scaled[:, r])
                dq[:, r].baddbmm_(ds, k[:, c], alpha=q.shape[2] ** -0.5)
        return dq, dk, dv, None, None


def hide(s, i, j, shift):
    """Hide later keys in the tile that begins at query i and key j; a shift of None hides none."""
    if shift is None:
        return s
    seen = s.new_ones(s.shape[1:], dtype=torch.bool).tril(shift + i - j)
    return s.where(seen, -torch.inf)


def flash_attention(query, key, value, block_size, causal=False):
    shift = key.shape[2] - query.shape[2] if causal else None
    folded = (t.flatten(0, 1) for t in (query, key, value))
    return Folded.apply(*folded, block_size, shift).view(query.shape)
