"""The last block comes first; the average is normalised after every block."""

import torch


def online_attention(query, key, value, block_size):
    d = query.shape[-1]
    output = torch.zeros_like(query)
    lse = query.new_full(query.shape[:3], -torch.inf)
    for start in reversed(range(0, key.shape[2], block_size)):
        stop = start + block_size
        scores = query @ key[:, :, start:stop].mT / d**0.5
        grown = torch.logaddexp(lse, scores.logsumexp(dim=-1))
        kept = torch.exp(lse - grown)[..., None]
        output = output * kept + torch.exp(scores - grown[..., None]) @ value[:, :, start:stop]
        lse = grown
    return output, lse
