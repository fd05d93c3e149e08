"""In plain loops: over sequences, heads, queries and keys."""

import torch


def aligned_attention(query, key, value):
    b, h, t, d = query.shape
    before = key.shape[2] - t
    rows = []
    for n in range(b):
        for m in range(h):
            for i in range(t):
                seen = before + i + 1
                scores = [query[n, m, i] @ key[n, m, j] / d**0.5 for j in range(seen)]
                weights = torch.softmax(torch.stack(scores), dim=0)
                row = 0
                for j in range(seen):
                    row = row + weights[j] * value[n, m, j]
                rows.append(row)
    return torch.stack(rows).view(b, h, t, d)
