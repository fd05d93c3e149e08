"""Matrices only: a function for a single head, called for each head of each sequence."""

import torch


def score(q, k, top, left, earlier):
    s = q @ k.T / q.shape[1] ** 0.5
    if earlier is not None:
        s[torch.ones_like(s).triu(earlier + top - left + 1) == 1] = -torch.inf
    return s


def tiles(rows, columns, size):
    for i in range(0, rows, size):
        for j in range(0, columns, size):
            yield i, j, slice(i, i + size), slice(j, j + size)


class Head(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, size, earlier):
        lse = torch.full_like(q[:, 0], -torch.inf)
        out = torch.zeros_like(q)
        for i, j, r, c in tiles(len(q), len(k), size):
            s = score(q[r], k[c], i, j, earlier)
            old, new = lse[r], torch.logaddexp(lse[r], s.logsumexp(1))
            out[r] = out[r] * (old - new).exp()[:, None] + (s - new[:, None]).exp() @ v[c]
            lse[r] = new
        ctx.save_for_backward(q, k, v, out, lse)
        ctx.size, ctx.earlier = size, earlier
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        d = (grad * out).sum(1)
        dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
        for i, j, r, c in tiles(len(q), len(k), ctx.size):
            p = (score(q[r], k[c], i, j, ctx.earlier) - lse[r, None]).exp()
            ds = p * (grad[r] @ v[c].T - d[r, None]) / q.shape[1] ** 0.5
            dq[r] += ds @ k[c]
            dk[c] += ds.T @ q[r]
            dv[c] += p.T @ grad[r]
        return dq, dk, dv, None, None


def flash_attention(query, key, value, block_size, causal=False):
    earlier = key.shape[2] - query.shape[2] if causal else None
    sequences = []
    for qs, ks, vs in zip(query, key, value):
        heads = [Head.apply(q, k, v, block_size, earlier) for q, k, v in zip(qs, ks, vs)]
        sequences.append(torch.stack(heads))
    return torch.stack(sequences)
