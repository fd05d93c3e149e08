"""Where cases come from: Hypothesis strategies, and a bank that covers sizes by design.

Cost is the number of draws, so a case is a handful of them, and its tensors are derived. A bank
is the same for everybody: it is made by a seeded search that covers all pairs of the values below,
and sorted, so that the first case that fails is already small.
"""

import itertools
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import fields, replace
from itertools import product
from math import prod
from typing import Any

from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument
from hypothesis.strategies import SearchStrategy

from properties.case import Case, Content, MaskForm, MaskType, Memory
from properties.contract import Contract
from properties.materials import DTYPES

LEVELS: dict[str, tuple[Any, ...]] = {
    "batch": (1, 3, 8, 4, 5),
    "context_length": (5, 8, 1, 13, 7),
    "tokens": (99, 4, 1, 7, 3),  # more than the context means the whole context
    "d_in": (3, 8, 1, 5),
    "heads": (2, 1, 4, 3, 5),
    "head_dim": (3, 4, 1, 2, 5),
    "bias": (False, True),
    "sharpness": (2, 1, 5),
    "content": (Content.NORMAL,) * 5 + (Content.REPEATED, Content.ZERO, Content.OUTLIER),
    "memory": (Memory.CONTIGUOUS, Memory.CONTIGUOUS, Memory.TRANSPOSED, Memory.EXPANDED),
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
SIZES = ("batch", "tokens", "context_length", "d_in", "heads", "head_dim")
RELATION_WORTH = 10
CANDIDATES = 24
DEFAULT_COUNT = 24
LONGEST = 32
"""So many tokens a case of a bank has at most."""


def cases(
    contract: Contract,
    *,
    max_tokens: int = 12,
    max_heads: int = 5,
    dtypes: tuple[str, ...] = ("float64",),
    devices: tuple[str, ...] = ("cpu",),
) -> SearchStrategy[Case]:
    """Cases that the contract allows; they shrink to one short sequence of small tokens.

    Raises InvalidArgument when there is nothing to draw from.
    """
    if max_tokens < 1 or max_heads < 1 or not dtypes or not devices:
        raise InvalidArgument("cases() needs max_tokens and max_heads >= 1, a dtype and a device")
    if unknown := set(dtypes) - set(DTYPES):
        raise InvalidArgument(f"no dtypes of a case: {sorted(unknown)}; there are {list(DTYPES)}")
    drawn = st.builds(
        Case,
        batch=st.integers(1, 3),
        tokens=st.integers(1, max_tokens),
        context_length=st.integers(1, max_tokens),
        d_in=st.integers(1, 8),
        heads=st.integers(1, max_heads),
        head_dim=st.integers(1, 6),
        bias=st.booleans(),
        dropout=st.sampled_from((0.0, 0.1, 0.5)),
        sharpness=st.integers(1, 8),
        content=st.sampled_from(LEVELS["content"]),
        memory=st.sampled_from(Memory),
        mask_form=st.sampled_from(MaskForm),
        mask_type=st.sampled_from(MaskType),
        dtype=st.sampled_from(dtypes),
        device=st.sampled_from(devices),
        seed=st.integers(0, 999),
    )
    return drawn.map(contract.fit)


def smaller(case: Case) -> SearchStrategy[Case]:
    """Cases that are nowhere larger than this one, and so are candidates for a simpler example."""
    return st.builds(
        Case, **{name: st.sampled_from(values) for name, values in _below(case).items()}
    )


def few_smaller(case: Case, most: int) -> tuple[Case, ...]:
    """The same cases, smallest first, if there are at most so many; none otherwise."""
    below = _below(case)
    if prod(map(len, below.values())) > most:
        return ()
    drawn = [Case(**dict(zip(below, values, strict=True))) for values in product(*below.values())]
    return tuple(sorted(drawn, key=lambda case: (case.size, str(case))))


def _below(case: Case) -> dict[str, Sequence[Any]]:
    """The values of each field that are no larger, simplest first."""
    # Other numbers make no example simpler, and the same case need not be judged twice.
    fixed = ("dtype", "device", "seed")
    return {
        f.name: [getattr(case, f.name)]
        if f.name in fixed
        else _up_to(getattr(case, f.name), f.default)
        for f in fields(case)
    }


def _up_to(value: Any, default: Any) -> Sequence[Any]:
    if isinstance(value, bool) or not isinstance(value, int):
        return [default, value] if value != default else [value]
    return range(min(value, 1) if default else 0, value + 1)


LADDER: tuple[dict[str, Any], ...] = (
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
"""Sizes on which most mistakes show; what is not named is as small as can be."""


def rungs(case: Case) -> tuple[Case, ...]:
    """Where to look for a smaller example than this case first: without its options, and with."""
    plain = Case(dtype=case.dtype, device=case.device, seed=case.seed)
    smallest: dict[str, Any] = {name: getattr(plain, name) for name in SIZES}
    bare = replace(case, **smallest)
    there = [replace(start, **sizes) for start in (plain, bare) for sizes in LADDER]
    return tuple(dict.fromkeys(rung for rung in there if rung.size < case.size))


def bank(contract: Contract, count: int = DEFAULT_COUNT, seed: int = 0) -> tuple[Case, ...]:
    """`count` different cases for this contract (fewer where it allows fewer), small ones first."""
    chooser = random.Random(seed)
    covered: set[tuple[object, ...]] = set()
    chosen: dict[Case, None] = {}
    for _ in range(count * 4):
        drawn = [_draw(contract, chooser) for _ in range(CANDIDATES)]
        best = max(drawn, key=lambda case: _gain(case, covered))
        covered |= _pairs(best) | _ties(best)
        chosen.setdefault(replace(best, seed=chooser.randrange(1, 1000)))
        if len(chosen) == count:
            break
    return tuple(sorted(chosen, key=lambda case: (case.size, str(case))))


def spread(cases: Sequence[Case], count: int) -> tuple[Case, ...]:
    """`count` of these cases in their order: the last and largest, and what adds most to it."""
    if len(cases) <= count:
        return tuple(cases)
    chosen = {cases[-1]}
    covered = set().union(*(_pairs(case) | _ties(case) for case in chosen))
    while len(chosen) < count:
        best = max((c for c in cases if c not in chosen), key=lambda case: _gain(case, covered))
        chosen.add(best)
        covered |= _pairs(best) | _ties(best)
    return tuple(case for case in cases if case in chosen)


def _draw(contract: Contract, chooser: random.Random) -> Case:
    values = {name: chooser.choice(levels) for name, levels in LEVELS.items()}
    case = Case(**values)
    case = contract.fit(replace(case, tokens=min(case.tokens, case.context_length)))
    first, second = chooser.choice(RELATIONS)
    tied = contract.fit(replace(case, **{first: getattr(case, second)}))
    # Where the width is that of GPT-2, as many tokens as that are too many.
    return tied if chooser.random() < 1 / 4 and tied.tokens <= LONGEST else case


def _gain(case: Case, covered: set[tuple[object, ...]]) -> int:
    """How much a case adds to a bank that covers this already."""
    return len(_pairs(case) - covered) + RELATION_WORTH * len(_ties(case) - covered)


def _ties(case: Case) -> set[tuple[object, ...]]:
    return {pair for pair in RELATIONS if getattr(case, pair[0]) == getattr(case, pair[1]) > 1}


def _pairs(case: Case) -> set[tuple[object, ...]]:
    values = {name: getattr(case, name) for name in LEVELS}
    values["tokens"] = (case.tokens == 1, case.tokens == case.context_length)
    return set(itertools.combinations(values.items(), 2))


Prepare = Callable[[Case], Case | None]


def as_drawn(case: Case) -> Case | None:
    """Every case will do."""
    return case


def at_least(**sizes: int) -> Prepare:
    """Cases raised to these sizes, where the contract lets them be."""

    def prepare(case: Case) -> Case | None:
        raised = {name: max(getattr(case, name), least) for name, least in sizes.items()}
        if "tokens" in raised:
            raised["context_length"] = max(case.context_length, raised["tokens"])
        return replace(case, **raised)

    return prepare


def with_values(**values: Any) -> Prepare:
    """Cases with these fields set."""
    return lambda case: replace(case, **values)


def both(first: Prepare, second: Prepare) -> Prepare:
    """One preparation after another."""

    def prepare(case: Case) -> Case | None:
        prepared = first(case)
        return None if prepared is None else second(prepared)

    return prepare


def prepared(contract: Contract, prepare: Prepare, drawn: Iterable[Case]) -> tuple[Case, ...]:
    """The cases as a property wants them and the contract allows them, each once."""
    wanted: dict[Case, None] = {}
    for case in drawn:
        asked = prepare(case)
        if asked is not None:
            fitted = contract.fit(asked)
            again = prepare(fitted)
            if again is not None and contract.fit(again) == fitted:
                wanted.setdefault(fitted)
    return tuple(wanted)
