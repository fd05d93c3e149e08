"""In plain loops: over sequences, heads, queries and the keys of a block."""

import torch


def online_attention(query, key, value, block_size):
    b, h, t, d = query.shape
    outputs, sums = [], []
    for n in range(b):
        for m in range(h):
            for i in range(t):
                highest = query.new_tensor(float("-inf"))
                total, mixed = 0, 0
                for start in range(0, key.shape[2], block_size):
                    block = range(start, min(start + block_size, key.shape[2]))
                    scores = [query[n, m, i] @ key[n, m, j] / d**0.5 for j in block]
                    before, highest = highest, torch.stack([highest, *scores]).max()
                    total = total * torch.exp(before - highest)
                    mixed = mixed * torch.exp(before - highest)
                    for score, j in zip(scores, block):
                        weight = torch.exp(score - highest)
                        total = total + weight
                        mixed = mixed + weight * value[n, m, j]
                outputs.append(mixed / total)
                sums.append(highest + torch.log(total))
    return torch.stack(outputs).view(b, h, t, d), torch.stack(sums).view(b, h, t)
