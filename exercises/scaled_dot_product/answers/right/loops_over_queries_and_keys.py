"""In plain loops: over queries and keys."""

import torch


def scaled_dot_product_attention(x, W_query, W_key, W_value):
    queries, keys, values = x @ W_query, x @ W_key, x @ W_value
    rows = []
    for query in queries:
        scores = torch.stack([query @ key for key in keys]) / keys.shape[1] ** 0.5
        weights = torch.softmax(scores, dim=0)
        row = 0
        for weight, value in zip(weights, values):
            row = row + weight * value
        rows.append(row)
    return torch.stack(rows)
