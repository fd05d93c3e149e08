"""The case set of a contract: it covers sizes by design, and is the same for everybody.

The cost grows with the number of cases, so there are few. A seeded search chooses them so that as
many pairs of the values below as possible occur, and some sizes are equal. The set is sorted, so
that the first failing case is already small.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from headcheck.properties.contracts.contract import Contract
from headcheck.properties.parts import PARTS, QUANTITIES
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MaskType, MemoryLayout

Pair = tuple[object, ...]
"""two values of fields that a case has together, or two sizes that are equal in it"""
LEVELS: dict[str, tuple[Any, ...]] = {
    "batch": (1, 3, 8, 4, 5),
    "context_length": (5, 8, 1, 13, 7),
    "tokens": (99, 4, 1, 7, 3),  # capped at the context, so this fills it
    "d_in": (3, 8, 1, 5),
    "heads": (2, 1, 4, 3, 5),
    "head_dim": (3, 4, 1, 2, 5),
    "bias": (False, True),
    "sharpness": (2, 1, 5),
    "content": (InputContent.NORMAL,) * 5
    + (InputContent.REPEATED, InputContent.ZERO, InputContent.OUTLIER),
    "memory": (
        MemoryLayout.CONTIGUOUS,
        MemoryLayout.CONTIGUOUS,
        MemoryLayout.TRANSPOSED,
        MemoryLayout.EXPANDED,
    ),
    "mask_form": (
        MaskForm.NONE,
        MaskForm.QUERY_KEY,
        MaskForm.ONE_ONE_QUERY_KEY,
        MaskForm.BATCH_ONE_QUERY_KEY,
        MaskForm.BATCH_HEAD_QUERY_KEY,
        MaskForm.BATCH_ONE_ONE_KEY,
        MaskForm.ONE_HEAD_QUERY_KEY,
    ),
    "mask_type": (MaskType.BOOL, MaskType.INT, MaskType.FLOAT),
    "dropout": (0.0, 0.5, 0.1),
}
"""values of fields, written out so that a new member of an enumeration changes no case set"""
RELATIONS = (
    ("d_in", "d_out"),
    ("d_in", "head_dim"),
    ("d_in", "tokens"),
    ("head_dim", "heads"),
    ("batch", "heads"),
    ("tokens", "heads"),
    ("tokens", "batch"),
    ("tokens", "head_dim"),
    ("tokens", "d_out"),
)
"""Pairs of sizes that are equal in some cases: some faults show only if they are equal, others only
if they differ.
"""
PLAINEST = Case(batch=2, tokens=4, context_length=4, d_in=3, heads=2, head_dim=2, sharpness=2)
"""a case without peculiarities, as far as a contract allows such a case"""
RELATION_WEIGHT = 10
CANDIDATES = 24
DEFAULT_COUNT = 24
MAX_TOKENS = 32
"""The most tokens of a case in a set."""
PUBLIC_SEED = 0
"""The seed of the published cases."""


def generate_case_set(
    contract: Contract, count: int = DEFAULT_COUNT, seed: int = 0
) -> tuple[Case, ...]:
    """Return `count` different cases for this contract (or all that it allows), small ones first.

    The plainest case is among them.
    """
    chooser = random.Random(seed)
    covered: set[Pair] = set()
    chosen: dict[Case, None] = {}
    for case in [contract.fit(PLAINEST)][:count]:
        covered |= _collect_pairs(case) | _find_ties(case)
        chosen.setdefault(replace(case, seed=chooser.randrange(1, 1000)))
    for _ in range(count * 4):
        if len(chosen) == count:
            break
        candidates = [_draw_case(contract, chooser) for _ in range(CANDIDATES)]
        best = max(
            candidates,
            key=lambda each: _count_gain(_collect_pairs(each), _find_ties(each), covered),
        )
        covered |= _collect_pairs(best) | _find_ties(best)
        chosen.setdefault(replace(best, seed=chooser.randrange(1, 1000)))
    return tuple(sorted(chosen, key=lambda case: (case.size, str(case))))


def select_diverse(cases: Sequence[Case], count: int) -> tuple[Case, ...]:
    """Select `count` cases: the largest, then those that add most. Return them in their order."""
    if len(cases) <= count:
        return tuple(cases)
    chosen, covered = [len(cases) - 1], set[Pair]()
    pairs, ties = [*map(_collect_pairs, cases)], [*map(_find_ties, cases)]
    while len(chosen) < count:
        covered |= pairs[chosen[-1]] | ties[chosen[-1]]
        rest = (n for n in range(len(cases)) if n not in chosen)
        chosen.append(max(rest, key=lambda n: _count_gain(pairs[n], ties[n], covered)))
    return tuple(cases[n] for n in sorted(chosen))


def _draw_case(contract: Contract, chooser: random.Random) -> Case:
    values = {name: chooser.choice(levels) for name, levels in LEVELS.items()}
    case = Case(**values, **draw_own_levels(contract, chooser))
    case = contract.fit(replace(case, tokens=min(case.tokens, case.context_length)))
    first, second = chooser.choice(RELATIONS)
    tied = contract.fit(replace(case, **{first: getattr(case, second)}))
    # With the width of GPT-2, as many tokens as dimensions are too many.
    return tied if chooser.random() < 1 / 4 and tied.tokens <= MAX_TOKENS else case


def draw_own_levels(contract: Contract, chooser: random.Random) -> dict[str, Any]:
    """Draw values of the fields that this contract has and most contracts lack."""
    own = (part for part in PARTS if part.brings <= contract.capabilities)
    return {each.name: chooser.choice(each.levels) for part in own for each in part.quantities}


def _count_gain(pairs: set[Pair], ties: set[Pair], covered: set[Pair]) -> int:
    """Return how much a case with these pairs and ties adds to a set that covers some already."""
    return len(pairs - covered) + RELATION_WEIGHT * len(ties - covered)


def _find_ties(case: Case) -> set[Pair]:
    return {pair for pair in RELATIONS if getattr(case, pair[0]) == getattr(case, pair[1]) > 1}


def _collect_pairs(case: Case) -> set[Pair]:
    own = (name for name in QUANTITIES if getattr(case, name))
    values = {name: getattr(case, name) for name in (*LEVELS, *own)}
    values["tokens"] = (case.tokens == 1, case.tokens == case.context_length)
    return set(itertools.combinations(values.items(), 2))
