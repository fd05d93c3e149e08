"""All queries at once against blocks of keys: a tile is as high as there are queries."""

import torch


class KeyBlocks(torch.autograd.Function):
    @staticmethod
    def scores(q, k, start, size, causal):
        s = q @ k[..., start : start + size, :].transpose(-1, -2)
        if causal:
            earlier = k.shape[-2] - q.shape[-2]
            s = s + torch.full_like(s[0, 0], float("-inf")).triu(earlier - start + 1)
        return s

    @staticmethod
    def forward(ctx, q, k, v, size, causal):
        scaled = q * q.shape[-1] ** -0.5
        m = torch.full(q.shape[:-1], float("-inf"), dtype=q.dtype, device=q.device)
        l, acc = torch.zeros_like(m), torch.zeros_like(q)
        for start in range(0, k.shape[-2], size):
            s = KeyBlocks.scores(scaled, k, start, size, causal)
            new = torch.maximum(m, s.max(-1).values)
            p = torch.exp(s - new.unsqueeze(-1))
            shrink = torch.exp(m - new)
            l = l * shrink + p.sum(-1)
            acc = acc * shrink.unsqueeze(-1) + p @ v[..., start : start + size, :]
            m = new
        out = acc / l.unsqueeze(-1)
        ctx.save_for_backward(q, k, v, out, m + l.log())
        ctx.options = size, causal
        return out

    @staticmethod
    def backward(ctx, grad):
        q, k, v, out, lse = ctx.saved_tensors
        size, causal = ctx.options
        scale = q.shape[-1] ** -0.5
        delta = (grad * out).sum(-1, keepdim=True)
        dq, dk, dv = torch.zeros_like(q), torch.empty_like(k), torch.empty_like(v)
        for start in range(0, k.shape[-2], size):
            part = slice(start, start + size)
            p = torch.exp(KeyBlocks.scores(q * scale, k, start, size, causal) - lse.unsqueeze(-1))
            ds = p * (grad @ v[..., part, :].transpose(-1, -2) - delta)
            dq += scale * (ds @ k[..., part, :])
            dk[..., part, :] = scale * (ds.transpose(-1, -2) @ q)
            dv[..., part, :] = p.transpose(-1, -2) @ grad
        return dq, dk, dv, None, None


def flash_attention(query, key, value, block_size, causal=False):
    return KeyBlocks.apply(query, key, value, block_size, causal)
