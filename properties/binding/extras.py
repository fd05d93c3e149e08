"""Find the parameters of parts, such as sinks and gates, among the tensors that a layout leaves.

A layout says where queries, keys, values and the output layer have their weights. Each remaining
tensor must have a role, so that a class is not bound with weights of unknown effect.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from headcheck.properties.contracts.contract import Contract
from headcheck.properties.contracts.implied_capabilities import restate_steps
from headcheck.properties.contracts.parameter_mapping import HeadSizes, Packing, ParameterMapping
from headcheck.properties.parts import PARTS
from headcheck.properties.parts.norms import NORMS
from headcheck.properties.parts.part import Found, Part
from headcheck.properties.parts.relative import SQUARE
from headcheck.properties.parts.weight import Weight, d_in
from headcheck.properties.terms.case import Case

CLAIMING = sorted(PARTS, key=lambda part: (part.names is None, -PARTS.index(part)))
"""Parts in the order in which they claim a tensor by its name: the names of later parts are more
special. A part without names takes what no name claims."""


@dataclass(frozen=True, slots=True)
class Left:
    """A tensor that a layout does not use."""

    path: str
    shape: tuple[int, ...]

    @property
    def any_path(self) -> str:
        """Its path, or that of one of the tensors if there is one for each head."""
        return self.path.replace("{head}", "0")


def find_claimant(path: str) -> Part | None:
    """Return the part to whose parameters a name belongs; None for projections, and if unclear."""
    named = (part for part in CLAIMING if part.names is not None and part.names.search(path))
    return next(named, None)


def iter_extended(
    layout: Sequence[ParameterMapping], left: Sequence[Left], case: Case
) -> Iterator[tuple[ParameterMapping, ...]]:
    """Yield the layout with every assignment of the remaining tensors to parameters of parts."""
    normed = [tensor for tensor in left if find_claimant(tensor.path) is NORMS]
    whole = any(t.shape != (case.head_dim,) for t in normed)
    sizes = _get_sizes(case, gains_by_head=whole)
    options = [_list_roles(tensor, sizes) for tensor in left]
    if not options or not all(options):
        return
    for chosen in itertools.product(*options):
        held = [name for mapping in (*layout, *chosen) for name in mapping.holds]
        if len({*held}) == len(held) and _is_whole({*held}) and _agrees(chosen):
            yield (*layout, *chosen)


def name_roles(matrix: Left, case: Case) -> frozenset[str]:
    """Return the parameters of parts that a matrix of this shape may hold."""
    roles = _list_roles(matrix, _get_sizes(case, gains_by_head=True))
    return frozenset(mapping.holds[0] for mapping in roles)


def _get_sizes(case: Case, *, gains_by_head: bool) -> HeadSizes:
    own = case.d_in, case.heads, case.head_dim, case.kv_heads
    return HeadSizes(*own, gains_by_head=gains_by_head)


def _is_whole(held: set[str]) -> bool:
    """Whether the parts are complete: norms for both queries and keys, no bias without its gate."""
    if ("gain_q" in held) != ("gain_k" in held) or ("shift_q" in held) != ("shift_k" in held):
        return False
    gain, shift = "gain_q" in held, "shift_q" in held
    return (gain or not shift) and ("W_gate" in held or "b_gate" not in held)


def _agrees(chosen: Sequence[ParameterMapping]) -> bool:
    """Whether a gate's weight and its bias gate the same numbers."""
    return len({m.packing for m in chosen if m.holds[0].endswith("_gate")}) <= 1


@functools.lru_cache(maxsize=1024)  # hundreds of layouts leave the same tensors
def _list_roles(tensor: Left, sizes: HeadSizes) -> tuple[ParameterMapping, ...]:
    return tuple(_iter_roles(tensor, sizes))


def _iter_roles(tensor: Left, sizes: HeadSizes) -> Iterator[ParameterMapping]:
    """Yield the possible roles of a tensor of this shape, up to the part that its name suggests."""
    sizes = replace(sizes, buckets=math.prod(tensor.shape) // sizes.heads)
    for part in CLAIMING:
        for weight in part.weights:
            if weight.is_named is not None and weight.is_named(tensor.path):
                yield from _iter_fitting(tensor, weight, sizes)
        if part.names is not None and part.names.search(tensor.path):
            return


def _iter_fitting(tensor: Left, weight: Weight, sizes: HeadSizes) -> Iterator[ParameterMapping]:
    """Yield the ways in which a tensor of this shape may hold a parameter."""
    linear = tensor.path.endswith("weight")
    ways = (not linear, linear) if weight.columns is d_in else (False, True)
    packings = weight.tried or weight.packings or (Packing.ROWS,)
    for packing, transposed in itertools.product(packings, ways):
        if transposed and (weight.columns is None or packing in SQUARE):
            continue
        mapping = ParameterMapping(tensor.path, (weight.name,), transposed, packing)
        if mapping.compute_shape(sizes, None) == tensor.shape:
            yield mapping


def iter_meanings(
    contract: Contract, found: Found, parts: Sequence[Part] = PARTS
) -> Iterator[Contract]:
    """Yield the contracts that a class with these parameters may mean, the usual one first."""
    if not parts:
        yield contract
        return
    for meant in parts[-1].read(contract, found):
        restated = meant if meant is contract else restate_steps(meant)
        yield from iter_meanings(restated, found, parts[:-1])
