"""Each block gives an output and a log-sum-exp; a softmax of the latter weighs the former."""

import torch


def online_attention(query, key, value, block_size):
    outputs, sums = [], []
    for start in range(0, key.size(2), block_size):
        scores = torch.einsum("bhqd,bhkd->bhqk", query, key[:, :, start : start + block_size])
        scores = scores / query.size(3) ** 0.5
        outputs.append(scores.softmax(-1) @ value[:, :, start : start + block_size])
        sums.append(scores.logsumexp(-1))
    sums = torch.stack(sums)
    shares = sums.softmax(dim=0)
    return (torch.stack(outputs) * shares.unsqueeze(-1)).sum(dim=0), sums.logsumexp(dim=0)
