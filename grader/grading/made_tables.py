"""Judge rotary tables that a function of a submission makes: each pair turns evenly, and fits.

The frequencies are free, since other bases and scalings are conventions. But two numbers that a
class rotates together must have one angle, every token must turn by the same angle further than the
one before it, and later pairs must not turn faster.
"""

import functools
import re
from collections.abc import Iterator, Sequence, Set

import torch
from torch import Tensor

from headcheck.grader.grading.helper_calls import (
    OF_TABLES,
    TOKENS,
    WIDTH,
    HelperCall,
    HelperFinding,
    HelperQuestion,
    choose_call,
)
from headcheck.grader.reading.helpers import TURNS, Helper
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.call_form import Given
from headcheck.properties.terms.group import PropertyGroup

G = Given
USERS = re.compile(r"_*(apply|rotate|turn|reshape)", re.IGNORECASE)
"""the beginnings of names of functions that use tables"""
HALVES = {G.COSINES_OF_HALVES, G.SINES_OF_HALVES, G.BOTH_OF_HALVES}
NEIGHBOURS = {G.COSINES_OF_PAIRS, G.SINES_OF_PAIRS}
COMPLEX = {G.COMPLEX, G.COMPLEX_PAIRS}
TABLES = HALVES | NEIGHBOURS | COMPLEX | {G.ANGLES, G.COSINES, G.SINES, G.BOTH}
"""what calls are given that is a rotary table"""
FLOAT32 = torch.empty(0)  # in which most tables are made, whatever they are converted to
NO_ARGUMENTS = HelperCall({}, {}, [], frozenset())
ULPS = 16
"""how many units of rounding may be in an entry, times the number of tokens"""
TOGETHER = {True: "`i` and `i` plus half", False: "`2i` and `2i + 1`"}


def ask_about_tables(helper: Helper, contracts: Sequence[Contract]) -> Iterator[HelperQuestion]:
    """Yield a question for each class that is given tables, if a function may make tables."""
    call = choose_call(helper.parameters, OF_TABLES) or NO_ARGUMENTS
    for contract in contracts:
        kinds = {*(contract.call_form.given or {}).values()} & TABLES
        if kinds and TURNS.search(helper.name) and not USERS.match(helper.name):
            claim = f"The rotary tables fit how `{contract.name}` rotates queries and keys."
            judge = functools.partial(judge_tables, kinds=kinds)
            yield HelperQuestion(claim, PropertyGroup.VALUES, call, judge)


def judge_tables(made: Sequence[Tensor], kinds: Set[Given]) -> HelperFinding | None:
    """Judge tables for a class that is given these kinds of tables.

    None if they have other shapes, such as those for another kind.
    """
    rows = [_lay_out(each, 3 if kinds & COMPLEX else 2, TOKENS) for each in made]
    laid = [each for each in rows if each is not None]
    whole = bool(kinds & (HALVES | NEIGHBOURS))
    shape = (WIDTH if whole else WIDTH // 2, *((2,) if kinds & COMPLEX else ()))
    wanted = 1 if kinds & (COMPLEX | {G.ANGLES}) else 2
    if len(laid) != len(made) or [tuple(t.shape[1:]) for t in laid] != [shape] * wanted:
        return None
    if whole:
        halves = bool(kinds & HALVES)
        if not _are_equal(laid, halves=halves):
            other = _are_equal(laid, halves=not halves)
            got = f"{TOGETHER[not halves]} are" if other else "neither these nor neighbours are"
            return HelperFinding(f"numbers {TOGETHER[halves]} of a row are of one angle", got)
        laid = [t[:, : WIDTH // 2] if halves else t[:, ::2] for t in laid]
    unit = max(torch.finfo(t.dtype).eps for t in (*made, FLOAT32)) * ULPS * TOKENS
    return _judge_turns(_make_complex(laid), unit)


def _lay_out(table: Tensor, axes: int, tokens: int) -> Tensor | None:
    """Return the rows of the first tokens, in float64; None if sequences or heads differ."""
    if not table.dtype.is_floating_point or table.dim() < axes or table.shape[-axes] < tokens:
        return None
    rows = table.to(torch.float64).flatten(0, -axes - 1) if table.dim() > axes else table[None]
    return rows[0, :tokens].to(torch.float64) if bool((rows == rows[:1]).all()) else None


def _are_equal(tables: Sequence[Tensor], *, halves: bool) -> bool:
    """Whether numbers that are rotated together are equal in all rows."""
    pairs = (t.chunk(2, -1) if halves else (t[:, ::2], t[:, 1::2]) for t in tables)
    return all(torch.equal(first, second) for first, second in pairs)


def _make_complex(tables: Sequence[Tensor]) -> Tensor:
    """Return the turns of pairs, (tokens, pairs), as complex numbers."""
    if len(tables) == 2:
        return torch.complex(tables[0], tables[1])
    [table] = tables
    if table.dim() == 3:
        return torch.view_as_complex(table.contiguous())
    return torch.polar(torch.ones_like(table), table)


def _judge_turns(turns: Tensor, unit: float) -> HelperFinding:
    """Judge whether every pair turns evenly, and later pairs not faster."""
    steps = turns[1:] * turns[:-1].conj() / turns[:1].abs().square()
    uneven = ((steps - steps[:1]).abs() > unit) | ((turns.abs()[1:] - turns.abs()[:1]).abs() > unit)
    if not bool(turns.isfinite().all()) or bool(uneven.any()):
        token, pair = uneven.nonzero()[0].tolist() if bool(uneven.any()) else (0, 0)
        expected = "each token turns a pair by the same angle further than the one before"
        return HelperFinding(expected, f"token {token + 1} does not, in pair {pair}")
    angles = steps[0].angle()
    slower = angles.abs().diff() <= unit
    if bool(slower.all()) and bool((angles * angles[0] >= -unit).all()):
        return HelperFinding()
    listed = ", ".join(f"{angle:.3g}" for angle in angles.tolist())
    return HelperFinding(
        "later pairs turn slower than earlier ones", f"pairs turn by {listed} a token"
    )
