"""Writes into copies at the indices of the upper triangle; the pair is a named tuple."""

from typing import NamedTuple

import torch


class Weights(NamedTuple):
    renormalised: torch.Tensor
    masked: torch.Tensor


def causal_weights(queries, keys):
    n, d = keys.shape
    rows, columns = torch.triu_indices(n, n, offset=1, device=keys.device)
    scores = torch.einsum("id,jd->ij", queries, keys) / d**0.5

    past = scores.softmax(dim=1).clone()
    past[rows, columns] = 0
    hidden = scores.clone()
    hidden[rows, columns] = float("-inf")
    return Weights(past / past.sum(dim=1, keepdim=True), hidden.softmax(dim=1))
