"""Mixes the notebook's `inputs` instead of the tokens it was given."""

import torch

inputs = torch.tensor(
    [
        [0.2, 0.7, 0.1],
        [0.9, 0.4, 0.5],
        [0.3, 0.3, 0.8],
        [0.6, 0.1, 0.4],
    ]
)


def simplified_attention(x):
    scores = inputs @ inputs.T
    weights = torch.softmax(scores, dim=-1)
    return weights @ inputs
