"""Find attention that adds positions to its tokens: a row of a table to each of them.

The equation knows no such table. If the output is that of tokens, or of queries and keys, to which
consecutive rows are added, this is proved, and the class is judged with a table of zeros. If the
rows reach only some of what needs them, the class is judged with numbers in its table.
"""

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from headcheck.properties.binding.by_name import covers
from headcheck.properties.binding.hypotheses import Sizes
from headcheck.properties.binding.matching import find_exact, make_parameters
from headcheck.properties.binding.probe import CallProbe
from headcheck.properties.binding.search import BindingSearch, Match
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.contracts.implied_capabilities import restate_steps
from headcheck.properties.parts.part import takes
from headcheck.properties.terms.call_form import AddedPositions, TokenAxes
from headcheck.properties.terms.case import Case

MAX_LIKELY = 24
"""the most contracts to try with each table"""
MAX_SKIPPED = 2
"""the most rows before that of the first token, as in OPT"""
ROLES = {"q": "queries", "k": "keys", "v": "values"}
RIGHT = ("qkv", "qk")
"""what rows may be added to: values need no positions"""


@dataclass(frozen=True, eq=False)
class _AddedTable:
    """A tensor that may hold positions, and a call as if the module did not have it."""

    path: str
    rows: Tensor
    probe: CallProbe

    def add(self, contract: Contract, first: int = 0) -> Tensor:
        """Return a row for each token, from this one on."""
        axis = 0 if contract.call_form.axes is TokenAxes.TOKENS_FIRST else 1
        return self.rows[first : first + self.probe.seen.x.shape[axis]]


def iter_with_positions(search: BindingSearch) -> Iterator[Match]:
    """Yield the matches of a class that adds positions, exact ones before wrong ones.

    What writes over its input is left out: a table of zeros would hide this.
    """
    probes = [probe for probe in search.probes if not probe.overwrites]
    tables = [table for probe in probes for table in _iter_tables(probe)]
    for find in (_find_right, _find_mistaken, _find_wrong):
        for table in tables:
            yield from find(search, table)


def _iter_tables(probe: CallProbe) -> Iterator[_AddedTable]:
    """Yield the tensors with a row, as wide as a token, for each token of a call, and idle ones.

    A matrix of weights, which may have this shape, too, has no idle row.
    """
    _, tokens, width = probe.seen.x.shape
    for path, info in probe.built.tensors.items():
        *axes, rows, columns = (1, 1, *info.shape)
        if columns == width and rows >= tokens and {*axes} == {1}:
            stored = probe.seen.stored.get(path)
            read = probe.module.read([path])[path] if stored is None else stored
            if rows > tokens and not probe.ignores_last_row(path, read):
                continue
            own = probe.leave_out([path])
            yield _AddedTable(path, read.reshape(rows, columns).double(), own)


def _iter_contracts(search: BindingSearch, table: _AddedTable) -> Iterator[tuple[Contract, Sizes]]:
    """Yield the likely contracts in which every other weight has a role."""
    probe = table.probe
    for contract, sizes in itertools.islice(search.iter_likely(probe), MAX_LIKELY):
        if _is_whole(contract, table, sizes):
            yield contract, sizes


def _is_whole(contract: Contract, table: _AddedTable, sizes: Sizes) -> bool:
    """Whether every weight but the table has a role in a contract."""
    every = covers(contract.mappings, table.probe.built, sizes.case)
    return every and contract.stores("W_q")


def _find_right(search: BindingSearch, table: _AddedTable) -> Iterator[Match]:
    """Yield the match of a class whose rows reach queries and keys.

    If rows begin later than the first, the last token may have none: then this is wrong.
    """
    for contract, sizes in _iter_contracts(search, table):
        for added, first in _iter_right(table, contract, sizes.case):
            place = find_exact(contract, sizes.case, table.probe.seen, added)
            if place is not None:
                match = _make_match(table, Match(contract, sizes, place), first)
                remark = f"its tokens get the rows of `{table.path}` from row {first} on"
                shifted = replace(match, inexact=True, remark=remark)
                yield from (match, shifted) if first else (match,)


def _find_mistaken(search: BindingSearch, table: _AddedTable) -> Iterator[Match]:
    """Yield the match of a class that has a known mistake besides."""
    seen = table.probe.seen
    seen = replace(seen, x=seen.x + table.rows[: seen.x.shape[1]])
    match = search.match_with_one_mistake(replace(table.probe, seen=seen))
    if match is not None and _is_whole(match.contract, table, match.sizes):
        yield _make_match(table, match)


def _iter_right(
    table: _AddedTable, contract: Contract, case: Case
) -> Iterator[tuple[tuple[Tensor, ...], int]]:
    """Yield what may be added to the tokens of queries, keys and values, and the first row."""
    for first in range(min(MAX_SKIPPED, len(table.rows) - len(table.add(contract))) + 1):
        yield (table.add(contract, first),) * 3, first
    for reached in RIGHT:
        for each in _iter_added(table, contract, case):
            yield _select(each, reached), 0


def _iter_added(table: _AddedTable, contract: Contract, case: Case) -> Iterator[tuple[Tensor, ...]]:
    """Yield what is added to the tokens of each role: rows, or what a layer makes into rows."""
    rows = table.add(contract)
    yield (rows,) * 3
    parameters = make_parameters(contract, case, table.probe.seen.stored)
    layers = [] if parameters is None else [parameters.W_q, parameters.W_k, parameters.W_v]
    if layers and all(layer.shape == (rows.shape[1],) * 2 for layer in layers):
        yield tuple(torch.linalg.solve(layer, rows.mT).mT for layer in layers)


def _select(added: tuple[Tensor, ...], reached: str) -> tuple[Tensor, ...]:
    """Return what is added, and zeros for the roles that it does not reach."""
    pairs = zip(ROLES, added, strict=True)
    return tuple(each if role in reached else torch.zeros_like(each) for role, each in pairs)


def _find_wrong(search: BindingSearch, table: _AddedTable) -> Iterator[Match]:
    """Yield the match of a class whose rows reach one role only, or go along the batch."""
    for contract, sizes in _iter_contracts(search, table):
        for remark, added in _iter_wrong(table, contract, sizes.case):
            place = find_exact(contract, sizes.case, table.probe.seen, added)
            if place is not None:
                match = Match(contract, sizes, place, inexact=True, remark=remark)
                yield _make_match(table, match, taken_off=True)


def _iter_wrong(
    table: _AddedTable, contract: Contract, case: Case
) -> Iterator[tuple[str, tuple[Tensor, ...]]]:
    """Yield what may be added wrongly, with a remark about it."""
    if contract.call_form.axes is TokenAxes.TOKENS_FIRST:
        return
    for (role, name), added in itertools.product(ROLES.items(), _iter_added(table, contract, case)):
        yield f"the rows of `{table.path}` reach its {name} alone", _select(added, role)
    if table.probe.batched:
        along = table.rows[: len(table.probe.seen.x), None]
        yield f"each sequence gets a row of `{table.path}`, and not each token", (along,) * 3


def _make_match(
    table: _AddedTable, match: Match, first: int = 0, *, taken_off: bool = False
) -> Match:
    """Return a match for sequences no longer than the table, if no argument sets its length."""
    form = replace(match.contract.call_form, positions=AddedPositions(table.path, taken_off))
    contract = replace(match.contract, call_form=form)
    if not takes("context_length")(contract):
        sizes = {**(contract.sizes or {}), "context_length": len(table.rows) - first}
        capabilities = contract.capabilities | {Capability.CONTEXT}
        contract = restate_steps(replace(contract, sizes=sizes, capabilities=capabilities))
    return replace(match, contract=contract)
