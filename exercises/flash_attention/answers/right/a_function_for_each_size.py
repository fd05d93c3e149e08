"""A Function is made for each call, with the size and the mask closed over; tiles are views."""

import torch


def make_function(size, causal):
    """Return a Function of tensors alone, for one size of blocks."""

    def cut(t):
        return [(at, part) for at, part in zip(range(0, t.shape[2], size), t.split(size, 2))]

    def score(q, k, at):
        s = q @ k.transpose(2, 3) / q.shape[3] ** 0.5
        if not causal:
            return s
        seen = torch.tril(torch.ones_like(s[0, 0]), diagonal=at).bool()
        return torch.where(seen, s, torch.full_like(s, -torch.inf))

    class Tiled(torch.autograd.Function):
        @staticmethod
        def forward(ctx, q, k, v):
            shift = k.shape[2] - q.shape[2]
            outputs, sums = [], []
            for i, rows in cut(q):
                top = torch.full_like(rows[..., 0], -torch.inf)
                total, mixed = torch.zeros_like(top), torch.zeros_like(rows)
                for (j, keys), (_, values) in zip(cut(k), cut(v)):
                    s = score(rows, keys, shift + i - j)
                    before, top = top, torch.maximum(top, s.amax(3))
                    p = torch.exp(s - top[..., None])
                    total = total * torch.exp(before - top) + p.sum(3)
                    mixed = mixed * torch.exp(before - top)[..., None] + p @ values
                outputs.append(mixed / total[..., None])
                sums.append(top + total.log())
            output = torch.cat(outputs, 2)
            ctx.save_for_backward(q, k, v, output, torch.cat(sums, 2))
            return output

        @staticmethod
        def backward(ctx, grad):
            q, k, v, output, lse = ctx.saved_tensors
            shift, scale = k.shape[2] - q.shape[2], q.shape[3] ** -0.5
            d = (grad * output).sum(3, keepdim=True)
            dq, dk, dv = torch.zeros_like(q), torch.zeros_like(k), torch.zeros_like(v)
            pieces = list(zip(cut(q), grad.split(size, 2), d.split(size, 2), lse.split(size, 2), dq.split(size, 2)))
            for (j, keys), (_, values), gk, gv in zip(cut(k), cut(v), dk.split(size, 2), dv.split(size, 2)):
                for (i, rows), g, mean, sums, gq in pieces:
                    p = torch.exp(score(rows, keys, shift + i - j) - sums[..., None])
                    gv += p.transpose(2, 3) @ g
                    ds = p * (g @ values.transpose(2, 3) - mean) * scale
                    gq += ds @ keys
                    gk += ds.transpose(2, 3) @ rows
            return dq, dk, dv

    return Tiled


def flash_attention(query, key, value, block_size, causal=False):
    return make_function(block_size, causal).apply(query, key, value)
