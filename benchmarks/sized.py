"""Grades a folder on other cases than students get: `python -m benchmarks.sized FOLDER 100`.

    python -m benchmarks.sized FOLDER CASES [FIELD=SIZE ...]

Each claim of `multi_head_attention` is tried on so many cases at most, and all of them have the
sizes that are named: fields of a `Case`. One job; limits so wide that nothing comes near them.
"""

import sys
from collections.abc import Mapping
from dataclasses import replace

from exercises import Exercise
from exercises.multi_head_attention import EXERCISE
from grader import run
from grader.grading import Settings
from grader.sandbox.launch import start
from properties.contract import Trait

WIDE = {"call_s": 600.0, "wall_s": 3600.0, "cpu_s": 3600, "memory": 16 << 30, "reply": 4 << 30}


def main() -> None:
    """Grade, and print how many passed and on how many cases."""
    folder, count, *rest = sys.argv[1:]
    with start() as ahead:
        exercise = sized(int(count), {n: int(v) for n, _, v in (r.partition("=") for r in rest)})
        settings = Settings(exercise=exercise, insisted=WIDE, jobs=1)
        report = run.grade([folder], settings, ahead=ahead)
    passed = sum(record.status == "passed" for record in report.submissions)
    print(passed, sum(map(len, exercise.plan().values())))


def sized(cases: int, sizes: Mapping[str, int]) -> Exercise:
    """The exercise with other cases.

    Another slug, too: what is kept on disk for the exercise must not be mistaken for this one's.
    """
    named = "_".join(f"{name}_{size}" for name, size in sizes.items())
    contract = EXERCISE.contract
    if sizes:
        fixed = contract.traits - {Trait.WIDTHS, Trait.DIVISIBLE}  # these need other sizes
        contract = replace(contract, sizes=dict(sizes), traits=fixed)
    slug = f"{EXERCISE.slug}_on_{cases}_{named}"
    return replace(EXERCISE, slug=slug, contract=contract, cases=cases)


if __name__ == "__main__":
    main()
