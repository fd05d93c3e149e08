"""A record of what is known so far, which takes in one block after the other."""

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Running:
    average: Tensor
    lse: Tensor

    def take(self, scores, values):
        lse = torch.logaddexp(self.lse, torch.logsumexp(scores, -1))
        earlier = self.average * torch.exp(self.lse - lse).unsqueeze(-1)
        return Running(earlier + torch.exp(scores - lse.unsqueeze(-1)) @ values, lse)


def online_attention(query, key, value, block_size):
    running = Running(torch.zeros_like(query), torch.full_like(query[..., 0], float("-inf")))
    query = query / query.shape[-1] ** 0.5
    for k, v in zip(key.split(block_size, -2), value.split(block_size, -2)):
        running = running.take(query @ k.mT, v)
    return running.average, running.lse
