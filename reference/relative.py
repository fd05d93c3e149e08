"""Buckets of distances, each with a learned number for every head that is added to the scores.

Near distances have buckets of their own. Farther ones share buckets whose widths grow with the
distance, so that the logarithm of the distance says the bucket.

Source: Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text
transformer", section 2.1 (arXiv:1910.10683); the boundaries are those of the authors' code.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class RelativeBuckets:
    """How distances are sorted into buckets."""

    count: int = 32
    farthest: int = 128
    """the distance from which on all share the last bucket"""
    both_sides: bool = False
    """whether later keys have buckets of their own, the second half; else they share the first"""

    def find(self, distance: Int[Tensor, "*shape"]) -> Int[Tensor, "*shape"]:
        """Return the bucket of each distance, which is a key's position minus the query's."""
        count = self.count // 2 if self.both_sides else self.count
        later = (distance > 0) * count if self.both_sides else torch.zeros_like(distance)
        size = distance.abs() if self.both_sides else (-distance).clamp_min(0)
        exact = count // 2
        # In float64 the logarithms of whole numbers fall on no boundary by rounding.
        ratio = torch.log(size.clamp_min(1).double() / exact) / math.log(self.farthest / exact)
        far = exact + (ratio * (count - exact)).clamp_min(0).long()
        return later + torch.where(size < exact, size, far.clamp_max(count - 1))

    def bias(
        self, table: Float[Tensor, "buckets heads"], scores: Float[Tensor, "*batch heads q k"]
    ) -> Float[Tensor, "heads q k"]:
        """Return what is added to scores like these. Queries are the last of the keys' tokens."""
        queries, keys = scores.shape[-2:]
        position = torch.arange(keys, device=scores.device)
        distance = position - position[keys - queries :, None]
        return table[self.find(distance)].movedim(-1, 0)
