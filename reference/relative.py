"""Learned numbers that are added to the scores, one of a table's rows for each pair of positions.

A row has one number for every head. Which row a pair has is the difference between the kinds.

    buckets    the row is that of the distance. Near distances have rows of their own. Farther ones
               share rows, so that the logarithm of the distance says the row
    windows    tokens are the places of a window of an image, row by row. Pairs with the same
               offset, in two directions, share a row
    pairs      every pair has a row of its own

Sources: Raffel et al. 2020, "Exploring the limits of transfer learning with a unified text-to-text
transformer", section 2.1 (arXiv:1910.10683), with the boundaries of the authors' code; Liu et al.
2021, "Swin Transformer", section 3.2 (arXiv:2103.14030).
"""

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, field

import torch
from jaxtyping import Float, Int
from torch import Tensor


@dataclass(frozen=True, slots=True)
class LearnedBias(ABC):
    """Which row of a table every pair of positions has."""

    factor: float = field(default=1.0, kw_only=True)
    """what multiplies the numbers: the scale of the scores, if they are added before it"""

    @abstractmethod
    def find_rows(self, queries: Int[Tensor, "q 1"], keys: Int[Tensor, "k"]) -> Int[Tensor, "q k"]:
        """Return the row of each pair of a query's and a key's position."""

    def bias(
        self, table: Float[Tensor, "rows heads"], scores: Float[Tensor, "*batch heads q k"]
    ) -> Float[Tensor, "heads q k"]:
        """Return what is added to scores like these. Queries are the last of the keys' tokens."""
        queries, keys = scores.shape[-2:]
        position = torch.arange(keys, device=scores.device)
        rows = self.find_rows(position[keys - queries :, None], position)
        return self.factor * table[rows].movedim(-1, 0)


@dataclass(frozen=True, slots=True)
class RelativeBuckets(LearnedBias):
    """How distances are sorted into buckets."""

    count: int = 32
    farthest: int = 128
    """the distance from which on all share the last bucket"""
    both_sides: bool = False
    """whether later keys have buckets of their own, the second half; else they share the first"""

    def find_rows(self, queries: Int[Tensor, "q 1"], keys: Int[Tensor, "k"]) -> Int[Tensor, "q k"]:
        """Return the bucket of the distance of each pair."""
        return self.find(keys - queries)

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


@dataclass(frozen=True, slots=True)
class WindowOffsets(LearnedBias):
    """How the offsets between the places of a window are numbered, the smallest one first."""

    height: int
    width: int
    key_first: bool = False
    """whether an offset is the key's place minus the query's, rather than the other way round"""
    by_columns: bool = False
    """whether offsets to the same column follow one another, rather than those to the same row"""
    first: tuple[bool, bool] = (True, True)
    """whether number 0 is that of the smallest offset down and to the right, rather than that of
    offset 0; the numbers before it go on from the end"""

    @property
    def sides(self) -> tuple[int, int]:
        """How many offsets there are in each direction."""
        return 2 * self.height - 1, 2 * self.width - 1

    def find_offsets(
        self, queries: Int[Tensor, "q 1"], keys: Int[Tensor, "k"]
    ) -> tuple[Int[Tensor, "q k"], Int[Tensor, "q k"]]:
        """Return by how many rows and columns the places of each pair differ."""
        sign = -1 if self.key_first else 1
        down = queries // self.width - keys // self.width
        return sign * down, sign * (queries % self.width - keys % self.width)

    def find_rows(self, queries: Int[Tensor, "q 1"], keys: Int[Tensor, "k"]) -> Int[Tensor, "q k"]:
        """Return the number of the offset of each pair."""
        return self.number(*self.find_offsets(queries, keys))

    def number(
        self, down: Int[Tensor, "*shape"], right: Int[Tensor, "*shape"]
    ) -> Int[Tensor, "*shape"]:
        """Return the number of each offset."""
        down = down + (self.height - 1) * self.first[0]
        right = right + (self.width - 1) * self.first[1]
        number = right * self.sides[0] + down if self.by_columns else down * self.sides[1] + right
        return number % math.prod(self.sides)


@dataclass(frozen=True, slots=True)
class EveryPair(LearnedBias):
    """The pairs are numbered query by query."""

    longest: int
    """how many positions there are"""

    def find_rows(self, queries: Int[Tensor, "q 1"], keys: Int[Tensor, "k"]) -> Int[Tensor, "q k"]:
        """Return the number of each pair."""
        return queries * self.longest + keys
