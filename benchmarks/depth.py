"""What each depth finds, and at what cost: `python -m benchmarks.depth [SLUG ...]`.

For every property of the exercises: how many wrong answers of the banks it finds, how many it finds
alone, how often it calls and builds a right answer (that to the dearest of the exercises), and at
which depth it is asked. Below the table stand the wrong answers that only a thorough check finds.
depth.toml lists those that nobody writes by mistake; any other is an error, and the exit code is 1.
So a property belongs to the usual depth if it alone finds an answer of a natural kind.

Answers are judged without a sandbox in JOBS other processes (an environment variable; 1 if it is
not set). All exercises take about an hour in one process.
"""

import multiprocessing
import os
import sys
import tomllib
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import Answer
from headcheck.grader.audit.matrix import (
    check_answer,
    initialise_process,
    load_answers,
    load_namespace,
)
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.check import find_first_failure
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property
from headcheck.properties.terms.depth import Depth

MADE_UP = Path(__file__).with_name("depth.toml")


@dataclass(frozen=True, slots=True)
class DepthComparison:
    """A wrong answer, and the properties that it breaks at each depth."""

    answer: Answer
    usual: tuple[str, ...]
    thorough: tuple[str, ...]

    @property
    def label(self) -> str:
        return f"{self.answer.exercise}/{self.answer.name}"


@dataclass(frozen=True, slots=True)
class Cost:
    """How often a property alone calls and builds a right answer at the usual number of cases."""

    calls: int
    builds: int


def main() -> int:
    """Compare, print, and return the exit code."""
    exercises = [BY_SLUG[slug] for slug in sys.argv[1:]] or list(ALL)
    answers = [a for e in exercises for a in load_answers(e) if a.is_wrong]
    context = multiprocessing.get_context("spawn")
    jobs = int(os.environ.get("JOBS", "1"))
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=initialise_process) as pool:
        compared = list(pool.map(compare_depths, answers, chunksize=4))
    for row in format_table(exercises, compared):
        print(row)
    unexpected = find_unexpected(compared, load_made_up())
    for each in compared:
        if not each.usual:
            known = "" if each in unexpected else " (made up)"
            print(f"only thorough: {each.label}: {', '.join(each.thorough)}{known}")
    return int(bool(unexpected))


def load_made_up() -> frozenset[str]:
    """Return the labels of the answers that nobody writes by mistake."""
    listed = tomllib.loads(MADE_UP.read_text("utf-8"))
    return frozenset(f"{slug}/{name}" for slug, names in listed.items() for name in names)


def compare_depths(answer: Answer) -> DepthComparison:
    """Check an answer at both depths."""
    exercise = BY_SLUG[answer.exercise]
    broken = (check_answer(answer, exercise.at(depth)).broken for depth in Depth)
    return DepthComparison(answer, *broken)


def find_unexpected(
    compared: Sequence[DepthComparison], made_up: frozenset[str]
) -> list[DepthComparison]:
    """Return the natural answers that only a thorough check finds."""
    return [each for each in compared if not each.usual and each.label not in made_up]


def format_table(
    exercises: Sequence[Exercise], compared: Sequence[DepthComparison]
) -> Iterator[str]:
    """Yield the rows of the table of properties, the dearest first."""
    found = Counter(name for each in compared for name in each.thorough)
    alone = Counter(each.thorough[0] for each in compared if len(each.thorough) == 1)
    costs = measure_costs(exercises)
    yield "| property | found | alone | calls | built | usual cases |"
    yield "|---|---|---|---|---|---|"
    for prop, cost in sorted(costs.items(), key=lambda item: -item[1].calls):
        cells = prop.name, found[prop.name], alone[prop.name], cost.calls, cost.builds, prop.usual
        yield f"| {' | '.join(map(str, cells))} |"


def measure_costs(exercises: Sequence[Exercise]) -> dict[Property, Cost]:
    """Return the largest cost of each property in these exercises."""
    costs: dict[Property, Cost] = {}
    for exercise in exercises:
        for prop, cost in _measure_costs(exercise).items():
            costs[prop] = max(cost, costs.get(prop, cost), key=lambda each: each.calls)
    return costs


def _measure_costs(exercise: Exercise) -> Mapping[Property, Cost]:
    namespace, counted = load_namespace(load_answers(exercise)[0]), Counter[str]()
    entry: Any = namespace[exercise.contract.name]
    if not isinstance(entry, type):
        return {}  # a function of its own, which builds nothing
    for name in ("__init__", "forward"):
        setattr(entry, name, _count(getattr(entry, name), name, counted))
    costs = {}
    for prop, cases in exercise.plan_cases().items():
        counted.clear()
        harness = Harness(make_subject(namespace), exercise.contract)
        find_first_failure(prop, harness, cases[: prop.usual or None])
        costs[prop] = Cost(counted["forward"], counted["__init__"])
    return costs


def _count(method: Any, name: str, counted: Counter[str]) -> Any:
    def call(*args: object, **kwargs: object) -> object:
        counted[name] += 1
        return method(*args, **kwargs)

    return call


if __name__ == "__main__":
    sys.exit(main())
