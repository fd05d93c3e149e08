"""Choose the small sizes of `every_size_is_right`: `python -m benchmarks.small_sizes [MODULES]`.

Prints `MODULES` of properties/families/sizes.py, and, as a comment, the share of simulated faults
that these sizes and the other cases of `multi_head_attention` find. Such a fault shows in one of a
hundred small cases, under one to three random conditions. The choice takes some seconds, and its
result is the same each time.
"""

import itertools
import operator
import random
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping

from headcheck.exercises import BY_SLUG
from headcheck.properties.families.sizes import every_size_is_right
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.depth import Depth

MODULES, CALLS = 40, 3
"""the number of modules, and the number of calls of each module"""
CANDIDATES = 1000
MAX_WIDTH = 60
"""the largest width of all heads together in a small module"""
FIELDS = ("batch", "tokens", "context_length", "d_in", "heads", "head_dim")
FAULTS, RANDOM_CASES = 600, 4000
SHARES = 0.007, 0.014
"""the share of small cases in which a simulated fault shows"""

Sizes = dict[str, int]
Fault = Callable[[Sizes], bool]


def main() -> None:
    """Choose, print the table and what it finds."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else MODULES
    chosen = list(choose_sizes(count))
    grouped = itertools.groupby(chosen, operator.itemgetter(0))
    rows = [format_module([call for _, call in numbered]) for _, numbered in grouped]
    # The first have most equal sizes, the last fewest. The usual depth takes some of both.
    for row in [each for pair in zip(rows, reversed(rows), strict=True) for each in pair][:count]:
        print(f"    {row},")
    sizes = [call for _, call in chosen]
    faults = list(draw_faults(random.Random(5)))
    others = list(list_other_sizes())
    for what, tried in ("the other cases", others), ("all cases", [*others, *sizes]):
        print(f"# {what} ({len(tried)}): {measure_share(faults, tried):.3f} of {FAULTS} faults")


def choose_sizes(count: int) -> Iterator[tuple[int, Sizes]]:
    """Choose sizes so that as many pairs of sizes as possible occur early, with module numbers."""
    chooser, covered = random.Random(1), set[object]()

    def choose(candidates: Iterable[Sizes]) -> Sizes:
        best = max(candidates, key=lambda sizes: len(_list_pairs(sizes) - covered))
        covered.update(_list_pairs(best))
        return best

    for number in range(count):
        module = choose(_draw_module(chooser) for _ in range(CANDIDATES))
        for _ in range(CALLS):
            yield number, choose(_draw_call(chooser, module) for _ in range(CANDIDATES))


def format_module(calls: list[Sizes]) -> str:
    """Return a row: the sizes of a module, and the lengths and batches of its calls."""
    first = calls[0]
    module = (first["heads"], first["head_dim"], first["d_in"], first["context_length"])
    return str((*module, tuple((call["tokens"], call["batch"]) for call in calls)))


def list_other_sizes() -> Iterator[Sizes]:
    """Yield the sizes of all cases of the other properties."""
    for prop, cases in BY_SLUG["multi_head_attention"].at(Depth.THOROUGH).plan_cases().items():
        if prop is not every_size_is_right:
            yield from map(_get_sizes, cases)


def draw_faults(chooser: random.Random) -> Iterator[Fault]:
    """Draw faults that show in the stated share of random small cases."""
    cases = [_draw_call(chooser, _draw_module(chooser)) for _ in range(RANDOM_CASES)]
    found = 0
    while found < FAULTS:
        fault = _draw_fault(chooser)
        if SHARES[0] <= sum(map(fault, cases)) / len(cases) <= SHARES[1]:
            found += 1
            yield fault


def measure_share(faults: list[Fault], sizes: list[Sizes]) -> float:
    """Return the share of faults that show at one of these sizes."""
    return sum(any(map(fault, sizes)) for fault in faults) / len(faults)


def _draw_module(chooser: random.Random) -> Sizes:
    large = chooser.random() < 1 / 8
    heads = chooser.randint(1, 20 if large and chooser.random() < 1 / 2 else 6)
    head_dim = min(chooser.randint(1, 20 if large else 7), MAX_WIDTH // heads)
    d_in, context = chooser.randint(1, 20 if large else 9), chooser.randint(1, 13)
    widths = {"heads": heads, "head_dim": head_dim, "d_out": heads * head_dim}
    return {"context_length": context, "d_in": d_in, **widths}


def _draw_call(chooser: random.Random, module: Sizes) -> Sizes:
    few = chooser.random() < 7 / 8
    batch = chooser.randint(1, 4) if few else chooser.randint(5, 12)
    return {**module, "tokens": chooser.randint(1, module["context_length"]), "batch": batch}


def _list_pairs(sizes: Mapping[str, int]) -> set[object]:
    """List pairs of sizes, pairs of equal sizes, and each equal pair with every other size."""
    pairs = set[object](itertools.combinations(sizes.items(), 2))
    for (one, value), (other, same) in itertools.combinations(sizes.items(), 2):
        if value == same > 1:
            pairs |= {(one, other, *rest) for rest in sizes.items()}
    return pairs


def _get_sizes(case: Case) -> Sizes:
    return {name: getattr(case, name) for name in FIELDS}


def _draw_fault(chooser: random.Random) -> Fault:
    conditions = [_draw_condition(chooser) for _ in range(chooser.randint(1, 3))]
    return lambda sizes: all(condition(sizes) for condition in conditions)


def _draw_condition(chooser: random.Random) -> Fault:
    """Draw a condition: a size, its rest in a division, or how it compares with another size."""
    one, other = chooser.sample(FIELDS, 2)
    number, divisor = chooser.randint(1, 13), chooser.choice((2, 3, 4, 5))
    rest, compare = chooser.randrange(divisor), chooser.choice((operator.eq, operator.gt))
    return chooser.choice(
        (
            lambda sizes: sizes[one] == number,
            lambda sizes: sizes[one] % divisor == rest,
            lambda sizes: sizes[one] > number,
            lambda sizes: compare(sizes[one], sizes[other]),
        )
    )


if __name__ == "__main__":
    main()
