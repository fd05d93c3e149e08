"""Smaller cases: to search for a counterexample, and for an answer that is too slow."""

from collections.abc import Sequence
from dataclasses import fields, replace
from itertools import product
from math import prod
from typing import Any

from headcheck.properties.cases.search_cases import estimate_work
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.case import Case

SIZE_FIELDS = ("batch", "tokens", "context_length", "d_in", "heads", "head_dim")
"""the fields that `STARTING_SIZES` may set"""
FEW_NUMBERS = 1 << 17
"""inputs with less work than this are small: the slowest loops take a fraction of a second for
them"""
HALVED = ("tokens", "batch", "heads", "head_dim", "d_in")
"""the sizes to halve, in order"""
LARGE = 16


def enumerate_smaller(case: Case, most: int) -> tuple[Case, ...]:
    """Return all cases without any larger value, smallest first; none if more than `most`."""
    fields = list_smaller_values(case)
    if prod(map(len, fields.values())) > most:
        return ()
    smaller = (Case(**dict(zip(fields, each, strict=True))) for each in product(*fields.values()))
    return tuple(sorted(smaller, key=lambda case: (case.size, str(case))))


def list_smaller_values(case: Case) -> dict[str, Sequence[Any]]:
    """Return the values of each field that are no larger, simplest first."""
    # Other random numbers make no example simpler, and the same case need not be checked twice.
    fixed = ("dtype", "device", "seed")
    return {
        f.name: [getattr(case, f.name)]
        if f.name in fixed
        else _list_values_up_to(getattr(case, f.name), f.default)
        for f in fields(case)
    }


def _list_values_up_to(value: Any, default: Any) -> Sequence[Any]:
    if isinstance(value, bool) or not isinstance(value, int):
        return [default, value] if value != default else [value]
    return range(min(value, 1) if default else 0, value + 1)


STARTING_SIZES: tuple[dict[str, Any], ...] = (
    {"tokens": 1, "context_length": 1},
    {},
    {"heads": 2},
    {"head_dim": 2},
    {"d_in": 2},
    {"batch": 2},
    {"tokens": 3, "context_length": 3},
    {"d_in": 2, "heads": 2, "head_dim": 2},
    {"tokens": 3, "context_length": 4, "d_in": 3, "heads": 2, "head_dim": 2},
    {"batch": 2, "tokens": 3, "context_length": 4, "d_in": 3, "heads": 2, "head_dim": 3},
)
"""Sizes at which most mistakes show; sizes that are not named are as small as possible."""


def list_starting_cases(case: Case) -> tuple[Case, ...]:
    """Return the first smaller cases to try, both without and with the options of this case."""
    plain = Case(dtype=case.dtype, device=case.device, seed=case.seed)
    smallest: dict[str, Any] = {name: getattr(plain, name) for name in SIZE_FIELDS}
    bare = replace(case, **smallest)
    starts = [replace(start, **sizes) for start in (plain, bare) for sizes in STARTING_SIZES]
    return tuple(dict.fromkeys(start for start in starts if start.size < case.size))


def is_large(case: Case) -> bool:
    """Return whether a right answer may take long on a case."""
    return estimate_work(case) >= FEW_NUMBERS


def make_smaller(contract: Contract, case: Case, work: int) -> Case | None:
    """Return a case with smaller inputs that takes at most this work; None if there is none."""
    while estimate_work(case) > work:
        halved = contract.fit(_halve(case))
        if estimate_work(halved) >= estimate_work(case):
            return None
        case = halved
    return case


def _halve(case: Case) -> Case:
    sizes: dict[str, int] = {name: getattr(case, name) for name in HALVED}
    largest = max(sizes, key=lambda name: sizes[name])
    name = next((name for name, size in sizes.items() if size > LARGE), largest)
    halved = replace(case, **{name: max(1, sizes[name] // 2)})  # type: ignore[arg-type]  # a size
    if name != "tokens":
        return halved
    return replace(halved, context_length=max(halved.tokens, case.context_length // 2))
