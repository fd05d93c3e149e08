"""The same case with smaller inputs, for an answer that is too slow for the original case."""

from dataclasses import replace

from headcheck.properties.cases.search_cases import estimate_work
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.case import Case

FEW_NUMBERS = 1 << 17
"""inputs with less work than this are small: the slowest loops take a fraction of a second for
them"""
HALVED = ("tokens", "batch", "heads", "head_dim", "d_in")
"""the sizes to halve, in order"""
LARGE = 16


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
