"""Tell by gradients which rows of weights make queries, keys and values, whatever their names.

The output of one token depends on its own query alone. So the gradient of its numbers for a row of
W_q is a multiple of this token, and that for a row of W_k or W_v, which meet all tokens, is not. A
token that is alone has the weight 1, whatever its scores: only W_v counts, unless there is a sink.

A search through all layouts of a module leaves out those that contradict this. What is left is
confirmed by outputs, as any other explanation is.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.contracts.parameter_mapping import HeadSizes, ParameterMapping
from headcheck.properties.parts.context_width import READING
from headcheck.properties.subject import Module
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed

RELATIVE = 1e-4
"""the part of a gradient that counts as nothing; a class may compute in float32"""
ROLES = ("W_q", "W_k", "W_v")
Stored = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class RowGradients:
    """The gradients of the output of one token, with the others before it and alone."""

    token: Tensor
    among_others: Stored
    alone: Stored | None
    """None if a call for a single token raises"""
    known: dict[tuple[ParameterMapping, HeadSizes, bool], bool] = field(default_factory=dict)
    """what has been found out, since thousands of layouts share few mappings"""

    def allow_all(self, contract: Contract, case: Case) -> bool:
        """Whether nothing contradicts that these are the queries, keys and values of a contract."""
        sizes, leaks = contract.get_head_sizes(case), contract.has(Capability.SINKS)
        return all(self._allow(mapping, sizes, leaks) for mapping in contract.mappings)

    def allow(self, mapping: ParameterMapping, sizes: HeadSizes) -> bool:
        """Whether nothing contradicts that a tensor holds these queries, keys or values."""
        leaks = any(t.numel() == sizes.heads for t in self.among_others.values())  # perhaps sinks
        return self._allow(mapping, sizes, leaks)

    def _allow(self, mapping: ParameterMapping, sizes: HeadSizes, leaks: bool) -> bool:
        key = mapping, sizes, leaks
        if key not in self.known:
            self.known[key] = self._fits(mapping, sizes) and self._weighs(mapping, sizes, leaks)
        return self.known[key]

    def _fits(self, mapping: ParameterMapping, sizes: HeadSizes) -> bool:
        """Whether rows of W_q, and of no other weight, are multiples of the token."""
        rows = _read(mapping, sizes, self.among_others)
        on_tokens = [(name, t) for name, t in rows if t.shape[1] == len(self.token)]
        return all(self._are_along(t, name) is (name == "W_q") for name, t in on_tokens)

    def _are_along(self, rows: Tensor, name: str) -> bool:
        """Whether rows of a gradient are multiples of the token: all of W_q, or some of others."""
        along = self.token / self.token.norm()
        across = (rows - (rows @ along)[:, None] * along).norm(dim=1)
        lengths = rows.norm(dim=1)
        alike = across <= RELATIVE * lengths
        return bool(alike.all() if name == "W_q" else (alike & (lengths > 0)).any())

    def _weighs(self, mapping: ParameterMapping, sizes: HeadSizes, leaks: bool) -> bool:
        """Whether of a token alone all values count, and neither queries nor keys.

        Values may be detached, which is a mistake to be told. Queries and keys count if scores leak
        into a sink.
        """
        if self.alone is None:
            return True
        most = max(float(t.norm()) for t in self.alone.values())
        for name, t in _read(mapping, sizes, self.alone):
            if name == "W_v" and bool(t.any()) and not bool((t.norm(dim=1) > 0).all()):
                return False
            if name != "W_v" and not leaks and float(t.norm()) > RELATIVE * most:
                return False
        return True


def _read(
    mapping: ParameterMapping, sizes: HeadSizes, stored: Stored
) -> Iterator[tuple[str, Tensor]]:
    """Yield the gradients of queries, keys and values that a tensor holds, or those of each head.

    Nothing if the shapes are not those of the mapping.
    """
    heads = sizes.kv_heads if mapping.is_shared else sizes.heads
    for head in range(heads) if "{head}" in mapping.path else (None,):
        found = stored.get(mapping.path.format(head=head))
        if found is None or tuple(found.shape) != mapping.compute_shape(sizes, head):
            return
        pieces = zip(mapping.holds, mapping.unpack(found, sizes), strict=True)
        for name, t in pieces:
            if name in ROLES:
                yield name, t[:, : sizes.d_in] if sizes.d_context and name in READING else t


def compute_row_gradients(
    module: Module, x: Tensor, outputs: tuple[Tensor, ...], stored: Stored, *, batched: bool
) -> RowGradients | None:
    """Return the gradients of the last token's output; None if they cannot be had, or are unclear.

    Raises SubmissionFailed if the process ends.
    """
    places = [n for n, t in enumerate(outputs) if t.dim() == 3 and t.shape[:2] == x.shape[:2]]
    if len(places) != 1:
        return None
    place, width = places[0], outputs[places[0]].shape[-1]
    generator = torch.Generator().manual_seed(width)
    drawn = torch.randn(width, generator=generator, dtype=torch.float64)

    def compute(tokens: Tensor) -> Stored | None:
        cotangent = torch.zeros(*tokens.shape[:2], width, dtype=torch.float64)
        cotangent[-1, -1] = drawn
        given = (tokens, cotangent) if batched else (tokens[0], cotangent[0])
        try:
            found = module.vjp([given[0]], given[1], [*stored], None, place).parameters
        except SubmissionFailed as failure:
            if failure.status is not Status.CRASHED:
                raise
            return None
        zeros = {path: torch.zeros_like(t, dtype=torch.float64) for path, t in stored.items()}
        return {**zeros, **{path: t.double() for path, t in found.items() if t is not None}}

    module.write(stored)
    among = compute(x)
    return None if among is None else RowGradients(x[-1, -1], among, compute(x[-1:, -1:]))
