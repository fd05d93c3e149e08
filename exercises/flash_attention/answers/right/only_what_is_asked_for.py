"""What needs no gradient gets none: `needs_input_grad` says what is asked for."""

import torch


class Asked(torch.autograd.Function):
    @staticmethod
    def forward(ctx, q, k, v, size, causal):
        blocks = [attend(q, k, v, i, size, causal) for i in range(0, q.shape[2], size)]
        out = torch.cat([o for o, _ in blocks], dim=2)
        ctx.save_for_backward(q, k, v, out, torch.cat([s for _, s in blocks], dim=2))
        ctx.size, ctx.causal = size, causal
        return out

    @staticmethod
    def backward(ctx, do):
        q, k, v, out, lse = ctx.saved_tensors
        asked = ctx.needs_input_grad
        grads = [torch.zeros_like(t) if a else None for t, a in zip((q, k, v), asked)]
        mean = (do * out).sum(-1, keepdim=True)
        for i in range(0, q.shape[2], ctx.size):
            r = slice(i, i + ctx.size)
            for j in range(0, k.shape[2], ctx.size):
                c = slice(j, j + ctx.size)
                p = (scores(q, k, i, j, ctx.size, ctx.causal) - lse[:, :, r]).exp()
                if asked[2]:
                    grads[2][:, :, c] += p.mT @ do[:, :, r]
                if not (asked[0] or asked[1]):
                    continue
                ds = p * (do[:, :, r] @ v[:, :, c].mT - mean[:, :, r]) * q.shape[3] ** -0.5
                if asked[0]:
                    grads[0][:, :, r] += ds @ k[:, :, c]
                if asked[1]:
                    grads[1][:, :, c] += ds.mT @ q[:, :, r]
        return *grads, None, None


def scores(q, k, i, j, size, causal):
    s = q[:, :, i : i + size] @ k[:, :, j : j + size].mT * q.shape[3] ** -0.5
    if causal:
        at = k.shape[2] - q.shape[2] + i - j
        later = torch.ones_like(s, dtype=torch.bool).triu(at + 1)
        s = s.masked_fill(later, -torch.inf)
    return s


def attend(q, k, v, i, size, causal):
    """The results of blocks of keys are stacked, and weighed by their log-sum-exps."""
    outputs, sums = [], []
    last = k.shape[2] - q.shape[2] + min(i + size, q.shape[2]) if causal else k.shape[2]
    for j in range(0, last, size):
        s = scores(q, k, i, j, size, causal)
        lse = s.logsumexp(-1, keepdim=True)
        weights = (s - lse.clamp_min(torch.finfo(s.dtype).min)).exp()
        outputs.append(weights @ v[:, :, j : j + size])
        sums.append(lse)
    sums = torch.stack(sums)
    return (torch.stack(outputs) * sums.softmax(0)).sum(0), sums.logsumexp(0)


def flash_attention(query, key, value, block_size, causal=False):
    return Asked.apply(query, key, value, block_size, causal)
