"""Look for tensors among recorded values, however their axes are laid out.

Numbers are laid out as they should be if they stand in the order of some permutation of the axes,
and the shape cuts them only between axes, or within one. So a transposed or flattened tensor is the
same, and one that a wrong view has scrambled is another.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise, permutations, product

import torch
from torch import Tensor

from headcheck.grader.grading.places.stages import OracleStage
from headcheck.grader.grading.tracing.graph import Recorded

EXACT = 1e-9
"""the largest difference, relative to the largest number, between equal values"""
FAR_BELOW = 40.0
"""how far hidden scores must lie below the others of a row: exp(-40) is less than rounding"""
LEAST = 4
"""tensors of fewer numbers are equal by chance"""
UNIT = 1e-6
"""how far the factor of scores may be from one"""
SLICED = ("m", "h", "mh", "b", "bh", "t", "bt", "bht")
"""axes along which a tensor may be computed piece by piece, in loops"""


@dataclass(frozen=True, eq=False)
class Pattern:
    """A tensor that is looked for, with a letter for each axis."""

    values: Tensor
    axes: str
    hidden: Tensor | None = None
    any_scale: bool = False
    exact: float = EXACT

    @cached_property
    def size(self) -> float:
        """The largest number that is not hidden."""
        shown = self.values if self.hidden is None else self.values[~self.hidden]
        return float(shown.abs().max()) if shown.numel() else 0.0

    @cached_property
    def total(self) -> float:
        """The sum of all numbers."""
        return float(self.values.sum())

    @cached_property
    def orders(self) -> list[tuple[tuple[int, ...], tuple[int, ...]]]:
        """Permutations of the axes that are longer than 1, each with the shape that it gives."""
        long = [i for i, n in enumerate(self.values.shape) if n > 1]
        short = [i for i, n in enumerate(self.values.shape) if n <= 1]
        orders = ((*short, *order) for order in permutations(long))
        return [(order, tuple(self.values.shape[i] for i in order)) for order in orders]

    def is_upright(self, order: Sequence[int]) -> bool:
        """Whether queries come before keys in an order of axes."""
        if not {"t", "s"} <= set(self.axes):
            return True
        return order.index(self.axes.index("t")) < order.index(self.axes.index("s"))

    def find_order(self, recorded: Recorded) -> tuple[tuple[int, ...], float] | None:
        """Return the order of axes in which recorded values are these, and their factor."""
        plain = self.hidden is None and not self.any_scale
        if recorded.values.numel() != self.values.numel() or not self.size:
            return None
        if plain and not abs(recorded.total - self.total) <= 1e-6 * self.size * self.values.numel():
            return None
        for order, shape in self.orders:
            if not fits(recorded.shape, shape):
                continue
            laid = self.values.permute(order).reshape(-1)
            hidden = None if self.hidden is None else self.hidden.permute(order)
            keys = order.index(self.axes.index("s")) if hidden is not None else -1
            factor = self._compare(recorded.values, laid, hidden, keys)
            if factor is not None:
                return order, factor
        return None

    def _compare(
        self, got: Tensor, wanted: Tensor, hidden: Tensor | None, keys: int
    ) -> float | None:
        """Return the factor by which values are these; None if they are others."""
        if hidden is not None:
            # Hidden scores get no weight, wherever a query sees something.
            rows = got.reshape(hidden.shape)
            best = rows.masked_fill(hidden, -math.inf).amax(keys, keepdim=True)
            if not bool(((rows <= best - FAR_BELOW) | ~hidden | (best == -math.inf)).all()):
                return None
            shown = ~hidden.reshape(-1)
            got, wanted = got[shown], wanted[shown]
        factor = 1.0
        if self.any_scale:
            factor = float((got * wanted).sum() / (wanted * wanted).sum())
            if not math.isfinite(factor) or abs(factor) < 1e-6:
                return None
        off = (got - factor * wanted).abs().max()
        return factor if float(off) <= self.exact * self.size * abs(factor) else None


def fits(shape: Sequence[int], other: Sequence[int]) -> bool:
    """Whether one shape cuts the same row of numbers between the axes of another, or within one."""
    mine, theirs = list(_list_cuts(shape)), list(_list_cuts(other))
    if mine == theirs:
        return True
    if any(b % a for a, b in pairwise(sorted({*mine, *theirs}))):
        return False
    # What joins two axes joins them whole.
    joins = ((a, b) for a, b in pairwise(mine) if any(a < cut < b for cut in theirs))
    return all(a in theirs and b in theirs for a, b in joins)


def _list_cuts(shape: Sequence[int]) -> Iterator[int]:
    size = 1
    yield size
    for n in reversed(shape):
        if n != 1:
            size *= n
            yield size


@dataclass(frozen=True)
class StageMatch:
    """The steps that give a stage: one whole, or all its pieces."""

    factors: dict[int, float]
    """by how much each step gives all its numbers too large"""
    whole: bool = True
    """whether each step gives all of it"""
    upright: bool = True
    """whether some step has queries before keys"""

    @cached_property
    def steps(self) -> frozenset[int]:
        return frozenset(self.factors)

    @property
    def is_scaled(self) -> bool:
        """Whether every step gives the stage only up to a factor."""
        return all(abs(f - 1) > UNIT for f in self.factors.values())


def make_pattern(stage: OracleStage, exact: float) -> Pattern:
    """Return what is looked for to find a stage."""
    return Pattern(stage.values, stage.axes, stage.hidden, stage.any_scale, exact)


def find_stage(
    stage: OracleStage, recorded: dict[int, list[Recorded]], exact: float
) -> StageMatch | None:
    """Find the steps that give a stage; `recorded` has them by how many numbers they have."""
    if stage.numel < LEAST and not stage.optional:
        return None
    pattern = make_pattern(stage, exact)
    also = (Pattern(other, stage.axes, exact=exact) for other in stage.also)
    found = {
        each.number: at
        for like in (pattern, *also)
        for each in recorded.get(like.values.numel(), ())
        if (at := like.find_order(each))
    }
    upright = {n: at for n, at in found.items() if pattern.is_upright(at[0])}
    if found:
        factors = {number: at[1] for number, at in (upright or found).items()}
        return StageMatch(factors, upright=bool(upright))
    for axes in SLICED:
        pieces = _find_pieces(pattern, axes, recorded)
        if pieces:
            return StageMatch(pieces, whole=False)
    return None


def _find_pieces(
    pattern: Pattern, axes: str, recorded: dict[int, list[Recorded]]
) -> dict[int, float]:
    """Return the steps that give a tensor piece by piece along axes, with the factor of each piece.

    There are none if a piece is missing.
    """
    if not set(axes) <= set(pattern.axes):
        return {}
    places = [pattern.axes.index(letter) for letter in axes]
    sizes = [pattern.values.shape[i] for i in places]
    count = math.prod(sizes)
    rest = pattern.values.numel() // max(1, count)
    if count < 2 or rest < LEAST or rest not in recorded:
        return {}
    steps: dict[int, float] = {}
    letters = "".join(letter for letter in pattern.axes if letter not in axes)
    for index in product(*map(range, sizes)):
        at = dict(zip(places, index, strict=True))
        piece = _select(pattern.values, at)
        hidden = None if pattern.hidden is None else _select(pattern.hidden, at)
        own = Pattern(piece, letters, hidden, pattern.any_scale, pattern.exact)
        found = ((each.number, own.find_order(each)) for each in recorded[rest])
        matching = {number: at[1] for number, at in found if at is not None}
        if not matching:
            return {}
        steps |= matching
    return steps


def _select(tensor: Tensor, at: dict[int, int]) -> Tensor:
    index = tuple(at.get(axis, slice(None)) for axis in range(tensor.dim()))
    return tensor[index]


def lay_out_like(stage: OracleStage, recorded: Recorded) -> Tensor | None:
    """Return recorded wrong values with the axes of a stage; None if that is not clear.

    Of the orders that fit the shape, the one is taken in which most numbers are right.
    """
    if recorded.values.numel() != stage.numel:
        return None
    pattern = Pattern(stage.values, stage.axes)
    best, most = None, -1.0
    for order, shape in pattern.orders:
        if fits(recorded.shape, shape) and pattern.is_upright(order):
            back = [order.index(i) for i in range(len(order))]
            laid = recorded.values.reshape(shape).permute(back)
            close = float(torch.isclose(laid, stage.values, atol=1e-9).double().mean())
            if close > most:
                best, most = laid, close
    return best
