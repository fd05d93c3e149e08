"""Tell by gradients which rows of weights make queries, keys and values, whatever their names.

The output of one token depends on its own query alone. So the gradient of its numbers for a row of
W_q is a multiple of this token, and that for a row of W_k or W_v, which meet all tokens, is not. A
token that is alone has the weight 1, whatever its scores: only W_v counts, unless there is a sink.

A search through all layouts of a module leaves out those that contradict this. What is left is
confirmed by outputs, as any other explanation is.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import torch
from torch import Tensor

from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.subject import Module
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed, Violation

RELATIVE = 1e-4
"""the part of a gradient that counts as nothing; a class may compute in float32"""
Stored = Mapping[str, Tensor]


@dataclass(frozen=True, eq=False)
class RowGradients:
    """The gradients of the output of one token, with the others before it and alone."""

    token: Tensor
    among_others: Stored
    alone: Stored | None
    """None if a call for a single token raises"""

    def allow(self, contract: Contract, case: Case) -> bool:
        """Whether nothing contradicts that these are the queries, keys and values of a contract."""
        if not contract.has(Capability.PROJECTED):
            return True
        found = _read(contract, case, self.among_others)
        on_tokens = [(name, t) for name, t in found.items() if t.shape[1] == len(self.token)]
        if any(self._are_along(t, name) is not (name == "W_q") for name, t in on_tokens):
            return False
        return self.alone is None or _weighs_values(contract, _read(contract, case, self.alone))

    def _are_along(self, rows: Tensor, name: str) -> bool:
        """Whether rows of a gradient are multiples of the token: all of W_q, or some of others."""
        along = self.token / self.token.norm()
        across = (rows - (rows @ along)[:, None] * along).norm(dim=1)
        lengths = rows.norm(dim=1)
        alike = across <= RELATIVE * lengths
        return bool(alike.all() if name == "W_q" else (alike & (lengths > 0)).any())


def _weighs_values(contract: Contract, alone: Stored) -> bool:
    """Whether of a token alone all values count, and neither queries nor keys."""
    if "W_v" not in alone or not any(bool(t.any()) for t in alone.values()):
        return True  # values may be detached, which is a mistake to be told
    values = alone["W_v"].norm(dim=1)
    others = [alone[name] for name in ("W_q", "W_k") if name in alone]
    idle = all(bool(each.norm() <= RELATIVE * values.max()) for each in others)
    return bool((values > 0).all()) and (idle or contract.has(Capability.SINKS))


def _read(contract: Contract, case: Case, stored: Stored) -> dict[str, Tensor]:
    """Return gradients by canonical name; none if the shapes are not those of the contract."""
    try:
        found = contract.to_canonical(stored, case)
    except (Violation, RuntimeError, ValueError, TypeError):
        return {}
    return {name: found[name] for name in ("W_q", "W_k", "W_v") if name in found}


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
