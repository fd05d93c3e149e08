"""Find sinks, gates and norms among the tensors that a layout does not use.

A layout says where queries, keys, values and the output layer have their weights. Each remaining
tensor must have a role, so that a class is not bound with weights of unknown effect.
"""

import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from headcheck.properties.contracts.contract import Contract, Norm, NormOver, Positions
from headcheck.properties.contracts.implied_capabilities import restate_steps
from headcheck.properties.contracts.parameter_mapping import HeadSizes, Packing, ParameterMapping
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.size_rules import parse_sizes

GATE = re.compile(r"(^|[._])(\w*_)?(gat(e|es|ing)|w?g)(_\w*)?($|[._])", re.IGNORECASE)
NORM = re.compile(r"norm|(^|[._])(\w*_)?(ln|rms|gain|gamma|scale)", re.IGNORECASE)
KEY = re.compile(r"(^|[._\d])w?k(ey)?s?($|[._\d])|key", re.IGNORECASE)
SHIFT = re.compile(r"(^|[._])(bias|beta|shift)|_(bias|beta|shift)", re.IGNORECASE)
SINK_PACKINGS = (Packing.ROWS, Packing.IMAGE_CONVOLUTION, Packing.BROADCAST)
EPSILONS = (1e-6, 1e-5, 1e-8, 1e-12, 0.0)
"""the small numbers that the norms of models add; 0 stands for the dtype's machine epsilon, torch's
default
"""
GAINS_FROM = (0.0, 1.0)
LEAST = {Norm.RMS: "head_dim>=2", Norm.LAYER: "head_dim>=3"}
"""size rules of each norm: with fewer numbers only signs are left after a norm"""
KINDS = (Norm.RMS, Norm.LAYER)
RELATIVE = re.compile(r"rel(ative)?([._]|$)|pos(ition)?_?bias|dist", re.IGNORECASE)
FARTHEST = 128
"""the distance from which on T5's models, and those made like them, have one bucket"""


@dataclass(frozen=True, slots=True)
class Left:
    """A tensor that a layout does not use."""

    path: str
    shape: tuple[int, ...]


def sounds_like_extra(path: str) -> bool:
    """Whether a name belongs to a gate or a norm, and to no projection."""
    return GATE.search(path) is not None or NORM.search(path) is not None


def iter_extended(
    layout: Sequence[ParameterMapping], left: Sequence[Left], case: Case
) -> Iterator[tuple[ParameterMapping, ...]]:
    """Yield the layout with every assignment of the remaining tensors to sinks, gates and norms."""
    normed = [t for t in left if NORM.search(t.path) and not GATE.search(t.path)]
    whole = any(t.shape != (case.head_dim,) for t in normed)
    heads = case.d_in, case.heads, case.head_dim, case.kv_heads
    sizes = HeadSizes(*heads, gains_by_head=whole)
    options = [list(_iter_roles(tensor, sizes)) for tensor in left]
    if not options or not all(options):
        return
    for chosen in itertools.product(*options):
        held = [mapping.holds[0] for mapping in chosen]
        if len({*held}) == len(held) and _is_whole({*held}) and _agrees(chosen):
            yield (*layout, *chosen)


def _is_whole(held: set[str]) -> bool:
    """Whether the parts are complete: norms for both queries and keys, no bias without its gate."""
    if ("gain_q" in held) != ("gain_k" in held) or ("shift_q" in held) != ("shift_k" in held):
        return False
    gain, shift = "gain_q" in held, "shift_q" in held
    return (gain or not shift) and ("W_gate" in held or "b_gate" not in held)


def _agrees(chosen: Sequence[ParameterMapping]) -> bool:
    """Whether a gate's weight and its bias gate the same numbers."""
    return len({m.packing for m in chosen if m.holds[0].endswith("_gate")}) <= 1


def _iter_roles(tensor: Left, sizes: HeadSizes) -> Iterator[ParameterMapping]:
    """Yield the possible roles of a tensor of this shape, the role that its name suggests first."""
    path = tensor.path
    if RELATIVE.search(path):
        if len(tensor.shape) == 2 and tensor.shape[1] == sizes.heads:
            yield ParameterMapping(path, ("W_rel",))
        return
    yield from _iter_gates(tensor, sizes)
    if GATE.search(path):
        for packing in (Packing.ROWS, Packing.HEADWISE):
            bias = ParameterMapping(path, ("b_gate",), False, packing)
            if bias.compute_shape(sizes, None) == tensor.shape:
                yield bias
        return
    if NORM.search(path):
        letter = "k" if KEY.search(path) else "q"
        kind = "shift" if SHIFT.search(path) else "gain"
        norm = ParameterMapping(path, (f"{kind}_{letter}",))
        if norm.compute_shape(sizes, None) == tensor.shape:
            yield norm
        return
    for packing in SINK_PACKINGS:
        sinks = ParameterMapping(path, ("sinks",), False, packing)
        if sinks.compute_shape(sizes, None) == tensor.shape:
            yield sinks


def _iter_gates(tensor: Left, sizes: HeadSizes) -> Iterator[ParameterMapping]:
    linear = tensor.path.endswith("weight")
    for packing, transposed in itertools.product(
        (Packing.ROWS, Packing.HEADWISE), (not linear, linear)
    ):
        gate = ParameterMapping(tensor.path, ("W_gate",), transposed, packing)
        if len(tensor.shape) == 2 and gate.compute_shape(sizes, None) == tensor.shape:
            yield gate


def iter_norms(
    contract: Contract, shapes: Mapping[str, tuple[int, ...]], case: Case
) -> Iterator[Contract]:
    """Yield the contract with each norm that its parameters may belong to, the usual norm first.

    A gain that is wider than a head belongs to a norm over all heads.
    """
    if not contract.stores("gain_q"):
        yield contract
        return
    gains = (m.path for m in contract.mappings if m.holds[0] in ("gain_q", "gain_k"))
    whole = any(shapes[path] != (case.head_dim,) for path in gains)
    over = NormOver.PROJECTION if whole else NormOver.HEAD
    kinds = (Norm.LAYER,) if contract.stores("shift_q") else KINDS
    for kind, start in itertools.product(kinds, GAINS_FROM):
        limited = contract.with_sizes(parse_sizes(LEAST[kind]))
        normed = replace(limited, norm=kind, norm_over=over)
        yield replace(normed, norm_epsilon=EPSILONS[0], norm_gain_from=start)


def iter_relative(contract: Contract, shapes: Mapping[str, tuple[int, ...]]) -> Iterator[Contract]:
    """Yield the contract with relative positions if it stores numbers for them.

    T5 does not scale scores, and models made like it do.
    """
    path = next((m.path for m in contract.mappings if m.holds == ("W_rel",)), None)
    if path is None:
        yield contract
        return
    own = replace(
        contract,
        positions=Positions.RELATIVE,
        relative_buckets=shapes[path][0],
        relative_farthest=FARTHEST,
    )
    yield from (restate_steps(replace(own, scale=scale)) for scale in (1.0, None))


def iter_epsilons(contract: Contract) -> Iterator[Contract]:
    """Yield the contract with every small number that its norms may add."""
    return (replace(contract, norm_epsilon=epsilon) for epsilon in EPSILONS)
