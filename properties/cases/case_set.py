"""The bank of cases: it covers sizes by design, and is the same for everybody.

Cost is the number of cases, so a bank holds few: a seeded search chooses them so that all pairs of
the values below meet, and sizes are equal now and then. It is sorted, so that the first case that
fails is already small.
"""

import itertools
import random
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from properties.case import Case, InputContent, MaskForm, MaskType, MemoryLayout
from properties.contract import Contract

LEVELS: dict[str, tuple[Any, ...]] = {
    "batch": (1, 3, 8, 4, 5),
    "context_length": (5, 8, 1, 13, 7),
    "tokens": (99, 4, 1, 7, 3),  # more than the context means the whole context
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
    "mask_form": tuple(MaskForm),
    "mask_type": tuple(MaskType),
    "dropout": (0.0, 0.5, 0.1),
}
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
"""Sizes that are equal now and then: some faults show only then, others only hide then."""
RELATION_WEIGHT = 10
CANDIDATES = 24
DEFAULT_COUNT = 24
MAX_TOKENS = 32
"""So many tokens a case of a bank has at most."""
PUBLIC_SEED = 0
"""The seed of the cases that everybody knows."""


def generate_case_set(
    contract: Contract, count: int = DEFAULT_COUNT, seed: int = 0
) -> tuple[Case, ...]:
    """`count` different cases for this contract (fewer where it allows fewer), small ones first."""
    chooser = random.Random(seed)
    covered: set[tuple[object, ...]] = set()
    chosen: dict[Case, None] = {}
    for _ in range(count * 4):
        drawn = [_draw(contract, chooser) for _ in range(CANDIDATES)]
        best = max(drawn, key=lambda case: _count_gain(case, covered))
        covered |= _collect_pairs(best) | _find_ties(best)
        chosen.setdefault(replace(best, seed=chooser.randrange(1, 1000)))
        if len(chosen) == count:
            break
    return tuple(sorted(chosen, key=lambda case: (case.size, str(case))))


def select_diverse(cases: Sequence[Case], count: int) -> tuple[Case, ...]:
    """`count` of these cases in their order: the last and largest, and what adds most to it."""
    if len(cases) <= count:
        return tuple(cases)
    chosen = {cases[-1]}
    covered = set().union(*(_collect_pairs(case) | _find_ties(case) for case in chosen))
    while len(chosen) < count:
        best = max(
            (c for c in cases if c not in chosen), key=lambda case: _count_gain(case, covered)
        )
        chosen.add(best)
        covered |= _collect_pairs(best) | _find_ties(best)
    return tuple(case for case in cases if case in chosen)


def _draw(contract: Contract, chooser: random.Random) -> Case:
    values = {name: chooser.choice(levels) for name, levels in LEVELS.items()}
    case = Case(**values)
    case = contract.fit(replace(case, tokens=min(case.tokens, case.context_length)))
    first, second = chooser.choice(RELATIONS)
    tied = contract.fit(replace(case, **{first: getattr(case, second)}))
    # Where the width is that of GPT-2, as many tokens as that are too many.
    return tied if chooser.random() < 1 / 4 and tied.tokens <= MAX_TOKENS else case


def _count_gain(case: Case, covered: set[tuple[object, ...]]) -> int:
    """How much a case adds to a bank that covers this already."""
    return len(_collect_pairs(case) - covered) + RELATION_WEIGHT * len(_find_ties(case) - covered)


def _find_ties(case: Case) -> set[tuple[object, ...]]:
    return {pair for pair in RELATIONS if getattr(case, pair[0]) == getattr(case, pair[1]) > 1}


def _collect_pairs(case: Case) -> set[tuple[object, ...]]:
    values = {name: getattr(case, name) for name in LEVELS}
    values["tokens"] = (case.tokens == 1, case.tokens == case.context_length)
    return set(itertools.combinations(values.items(), 2))
