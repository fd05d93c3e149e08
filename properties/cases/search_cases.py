"""The cases of a search: generated one after the other, the same for everybody with the same seed.

Theory ------ The case set (`case_set.py`) is small and has small sizes. A fault that shows only at
a larger size (a buffer of 256 tokens, a loop over eight heads, a chunk of 64 columns) shows in none
of its cases. A search therefore also draws much larger sizes. If all sizes of a case were large, it
would take seconds. So one or two sizes are *drawn far*, and the others stay small enough for the
whole case to be cheap. Every second case has one of the *edges* at which real code changes its path
(powers of two, and one less or more; usual widths). The edges of all sizes take turns, so that 200
cases cover them all.

Cases are drawn by `random.Random`, from a text that names the owner, the seed and the number of the
case. So each case is independent of earlier cases, of Hypothesis's version and database, and of the
constants that Hypothesis collects from loaded modules. Hypothesis shrinks the failing cases.
"""

import itertools
import random
from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace

from headcheck.properties.cases.case_set import LEVELS, RELATIONS, draw_own_levels
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.terms.case import Case

FAR = {
    "tokens": 300,
    "batch": 70,
    "heads": 20,
    "head_dim": 130,
    "d_in": 130,
    "context_length": 1100,
}
"""the sizes that a search may draw far, each with its largest value"""
LONGEST = 1100
"""the longest sequence, except for edges"""
EDGES = (
    *sorted({2**k + offset for k in range(3, 9) for offset in (-1, 0, 1)} | {12, 80, 96}),
    512,
    1025,
    2051,
)
"""sizes at which real code changes its path"""
NEAR = 7
"""the largest value of a size that is not drawn large"""
PLAIN_EVERY = 40
"""One case in every group of this many has no large size, and so is cheap enough for every
property.
"""
OPTIONS = ("bias", "dropout", "content", "memory", "mask_form", "mask_type")
SHARPNESSES = (1, 1, 2, 2, 3, 5, 8)
DTYPES = ("float64",) * 6 + ("float32",) * 3 + ("bfloat16",)
COMPANIONS, COMPANION_SIZE = 8, 12
"""the number of small cases that accompany each large case, and their largest size; together they
cost as much as the large case"""
MAX_TRIES = 20
"""the most draws of small sizes to find a cheap case"""
MAX_WEIGHTS = 1 << 17
"""the most numbers in all weights of a module"""
MAX_WORK = 12 << 20
"""the most multiplications of a call, which together with its error bounds takes some 20 ms"""
MAX_LONG_WORK = 48 * MAX_WORK
MAX_SCORES = 1 << 20
"""the most scores of a call that returns attention weights: more would be slow to send back"""


def generate_search_cases(
    contract: Contract, seed: int, owner: str, device: str = "cpu"
) -> Iterator[Case]:
    """Yield cases without end; the first n are the same however many are taken."""
    free = [name for name in FAR if _is_free(contract, name)]
    stepped = [name for name in free if name != "context_length"]
    edges = [(name, edge) for name in stepped for edge in EDGES if edge <= _get_largest(name)]
    random.Random(f"edges {owner} {seed}").shuffle(edges)
    for number in itertools.count():
        # The text is hashed, so a case tells neither the run's seed nor another case.
        chooser = random.Random(f"search {owner} {seed} {number}")
        far = {} if is_plain(number) or not free else _draw_far_sizes(free, chooser)
        if edges and number % 2 == 0:
            name, edge = edges[number // 2 % len(edges)]
            # First, so that it is not the one given up where two sizes are too far together.
            far = {name: edge, **{other: far[other] for other in far if other != name}}
        dtype = "float64" if is_plain(number) else chooser.choice(DTYPES)
        yield replace(_draw_case(contract, chooser, far), dtype=dtype, device=device)


def draw_companions(
    contract: Contract, seed: int, owner: str, number: int, device: str = "cpu"
) -> Iterator[Case]:
    """Yield the small cases that accompany the case of this number, to check only their values."""
    chooser = random.Random(f"companions {owner} {seed} {number}")
    for _ in range(COMPANIONS):
        sizes = {n: chooser.randint(1, COMPANION_SIZE) for n in FAR if n != "context_length"}
        sizes |= draw_own_levels(contract, chooser)
        case = replace(Case(sharpness=2, device=device), **sizes, context_length=0)  # type: ignore[arg-type]  # sizes
        yield _fit(contract, replace(case, seed=chooser.randrange(1, 1 << 32)), (), chooser)


def is_plain(number: int) -> bool:
    """Return whether the case with this number, counted from 0, has no size drawn far."""
    return number % PLAIN_EVERY == PLAIN_EVERY - 1


def is_long(case: Case) -> bool:
    """Return whether a case is so long that one call costs as much as ten usual calls."""
    return case.tokens > FAR["tokens"]


def estimate_work(case: Case) -> int:
    """Estimate the number of multiplications for answering a case and bounding the errors."""
    rows = case.batch * case.tokens
    projections = rows * case.d_out * (3 * case.d_in + case.d_out)
    return projections + rows * case.heads * case.tokens * (2 * case.head_dim + 128)


def _draw_case(contract: Contract, chooser: random.Random, far: dict[str, int]) -> Case:
    options = {name: chooser.choice(LEVELS[name]) for name in OPTIONS}
    options |= draw_own_levels(contract, chooser)
    options |= {
        "sharpness": chooser.choice(SHARPNESSES),
        "seed": chooser.randrange(1, 1 << 32),
    }
    while True:
        for _ in range(MAX_TRIES):
            near = _draw_near_sizes(chooser)
            case = _fit(contract, Case(**{**options, **near, **far}), far, chooser)
            if _is_cheap(contract, case):
                return case
        # The others as small as possible; if that is not enough, two sizes are too far together.
        case = contract.fit(_give_context(Case(**{**options, **far}), 0))
        if _is_cheap(contract, case) or not far:
            return case
        far.popitem()


def _draw_far_sizes(free: Sequence[str], chooser: random.Random) -> dict[str, int]:
    # The first of them, the length where it is free, has three times the chance of the others.
    names = [chooser.choice([free[0], free[0], *free]) for _ in range(chooser.choice((1, 1, 2)))]
    return {name: _draw_far_size(name, chooser) for name in names}


def _is_free(contract: Contract, name: str) -> bool:
    """Return whether a contract leaves this size to the case."""
    others = Case(batch=9, tokens=9, context_length=10, d_in=9, heads=9, head_dim=9)
    size = 11 if name == "context_length" else 10
    changed = replace(others, **{name: size})  # type: ignore[arg-type]  # a size
    return bool(getattr(contract.fit(changed), name) == size)


def _get_largest(name: str) -> int:
    return EDGES[-1] if name == "tokens" else FAR[name]


def _draw_far_size(name: str, chooser: random.Random) -> int:
    largest = FAR[name]
    if name == "tokens" and chooser.random() < 0.1:
        largest = LONGEST
    elif chooser.random() < 0.4:  # moderate sizes, too
        largest = min(largest, chooser.choice((16, 32, 64, 128)))
    return chooser.randint(NEAR + 1, largest)


def _draw_near_sizes(chooser: random.Random) -> dict[str, int]:
    sizes = {name: chooser.randint(1, NEAR) for name in FAR if name != "context_length"}
    return {**sizes, "context_length": 0}


def _fit(contract: Contract, case: Case, far: Collection[str], chooser: random.Random) -> Case:
    """Return the nearest case that the contract allows; sometimes two of its sizes are equal."""
    first, second = chooser.choice(RELATIONS)
    if chooser.random() < 0.15 and first not in far:
        case = replace(case, **{first: getattr(case, second)})
    return contract.fit(_give_context(case, chooser.choice((0, 0, 0, 1, 2, 5))))


def _give_context(case: Case, spare: int) -> Case:
    """Return a case whose context has room for its tokens and a few more."""
    return replace(case, context_length=max(case.context_length, case.tokens + spare))


def _is_cheap(contract: Contract, case: Case) -> bool:
    """Return whether a case is cheap enough; if a contract fixes large sizes, it may cost more."""
    least = contract.fit(Case())
    most = MAX_LONG_WORK if is_long(case) and case.batch == case.heads == 1 else MAX_WORK
    return (
        _count_weights(contract, case) <= max(MAX_WEIGHTS, _count_weights(contract, least))
        and estimate_work(case) <= max(most, 8 * estimate_work(least))
        and _count_returned_scores(contract, case) <= MAX_SCORES
    )


def _count_returned_scores(contract: Contract, case: Case) -> int:
    if contract.returns not in (Returns.OUTPUT_AND_WEIGHTS, Returns.WEIGHTS_TWICE):
        return 0
    return case.batch * case.heads * case.tokens**2


def _count_weights(contract: Contract, case: Case) -> int:
    if not contract.has(Capability.PROJECTED):
        return 0
    return case.d_out * (3 * case.d_in + case.d_out)
