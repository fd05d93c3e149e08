"""The backward has the keys outside, as in the paper, and the context is set up apart."""

import torch


def tile(q, k, first, last, start, causal):
    """The scores of queries that stand at first … last and of keys from start on."""
    s = torch.einsum("bhqd,bhkd->bhqk", q, k) / q.shape[-1] ** 0.5
    if causal:
        places = torch.arange(first, last, device=q.device).unsqueeze(1)
        s = torch.where(start + torch.arange(k.shape[2], device=q.device) <= places, s, -torch.inf)
    return s


class Flash(torch.autograd.Function):
    @staticmethod
    def forward(q, k, v, size, causal):
        before, outputs, sums = k.shape[2] - q.shape[2], [], []
        first = before
        for rows in q.split(size, dim=2):
            last = first + rows.shape[2]
            lse = rows.new_full(rows.shape[:3], -torch.inf)
            output = torch.zeros_like(rows)
            for start in range(0, last if causal else k.shape[2], size):
                s = tile(rows, k[:, :, start : start + size], first, last, start, causal)
                grown = torch.logaddexp(lse, s.logsumexp(-1))
                p = torch.exp(s - grown.unsqueeze(-1))
                output = output * torch.exp(lse - grown).unsqueeze(-1) + p @ v[:, :, start : start + size]
                lse = grown
            outputs.append(output)
            sums.append(lse)
            first = last
        return torch.cat(outputs, 2), torch.cat(sums, 2)

    @staticmethod
    def setup_context(ctx, inputs, outputs):
        q, k, v, ctx.size, ctx.causal = inputs
        output, lse = outputs
        ctx.mark_non_differentiable(lse)
        ctx.save_for_backward(q, k, v, output, lse)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, d_output, _):
        q, k, v, output, lse = ctx.saved_tensors
        size, before = ctx.size, k.shape[2] - q.shape[2]
        delta = torch.einsum("bhqd,bhqd->bhq", d_output, output)
        d_q, d_keys, d_values = torch.zeros_like(q), [], []
        for j in range(0, k.shape[2], size):
            kj, vj = k[:, :, j : j + size], v[:, :, j : j + size]
            d_k, d_v = torch.zeros_like(kj), torch.zeros_like(vj)
            for i in range(0, q.shape[2], size):
                rows = slice(i, min(i + size, q.shape[2]))
                if ctx.causal and before + rows.stop <= j:
                    continue  # nothing of this tile is visible
                s = tile(q[:, :, rows], kj, before + i, before + rows.stop, j, ctx.causal)
                p = torch.exp(s - lse[:, :, rows].unsqueeze(-1))
                do = d_output[:, :, rows]
                ds = p * (do @ vj.mT - delta[:, :, rows].unsqueeze(-1)) / q.shape[-1] ** 0.5
                d_q[:, :, rows] += ds @ kj
                d_k += ds.mT @ q[:, :, rows]
                d_v += p.mT @ do
            d_keys.append(d_k)
            d_values.append(d_v)
        return d_q, torch.cat(d_keys, 2), torch.cat(d_values, 2), None, None


def flash_attention(query, key, value, block_size, causal=False):
    output, _ = Flash.apply(query, key, value, block_size, causal)
    return output
