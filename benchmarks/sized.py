"""Grade a folder on cases that students do not get: `python -m benchmarks.sized FOLDER 100`.

    python -m benchmarks.sized FOLDER CASES [FIELD=SIZE ...]

The exercise `multi_head_attention` gets CASES cases, and all of them have the given sizes, which
are fields of a `Case`. Claims that need another size still get it. There is one job, and the limits
are too wide to matter.
"""

import sys
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.grader import run
from headcheck.grader.grading.settings import Settings
from headcheck.grader.sandbox.grader_side.launch import start_zygote
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.properties.terms.depth import Depth

EXERCISE = BY_SLUG["multi_head_attention"]

WIDE_LIMITS = {
    "call_s": 600.0,
    "total_s": 3600.0,
    "cpu_s": 3600,
    "memory": 16 << 30,
    "reply": 4 << 30,
}
UNSIZED_CAPABILITIES = {Capability.WIDTHS, Capability.DIVISIBLE, Capability.DROPOUT}
"""Their claims choose their own sizes, or make so many calls that they would dominate the time."""


@dataclass(frozen=True, eq=False)
class ResizedExercise(Exercise):
    """An exercise with other cases."""

    sizes: Mapping[str, int] = field(default_factory=dict)

    def _select_cases(self, seed: int, device: str) -> Mapping[Property, tuple[Case, ...]]:
        made = generate_case_set(self.contract, self.cases, seed)
        sizes: dict[str, Any] = dict(self.sizes)
        there = list(dict.fromkeys(replace(case, **sizes, device=device) for case in made))
        return {
            each: each.select_cases(self.contract, there, self.depth) for each in self.properties
        }


def main() -> None:
    """Grade, and print how many passed and on how many cases."""
    folder, count, *rest = sys.argv[1:]
    with start_zygote() as ahead:
        exercise = resize_exercise(
            int(count), {n: int(v) for n, _, v in (r.partition("=") for r in rest)}
        )
        settings = Settings(exercise=exercise, limit_overrides=WIDE_LIMITS, jobs=1)
        report = run.grade_paths([folder], settings, ahead=ahead)
    passed = sum(record.status == "passed" for record in report.submissions)
    print(passed, sum(map(len, exercise.at(Depth.USUAL).plan_cases().values())))


def resize_exercise(cases: int, sizes: Mapping[str, int]) -> ResizedExercise:
    """The exercise with other cases.

    It also has another slug, so that it does not use files that are cached for the real exercise.
    """
    named = "_".join(f"{name}_{size}" for name, size in sizes.items())
    slug = f"{EXERCISE.slug}_on_{cases}_{named}"
    capabilities = EXERCISE.contract.capabilities - (UNSIZED_CAPABILITIES if sizes else set())
    contract = replace(EXERCISE.contract, capabilities=capabilities)
    known = {each.name: getattr(EXERCISE, each.name) for each in fields(EXERCISE)}
    return ResizedExercise(
        **{**known, "slug": slug, "contract": contract, "cases": cases}, sizes=sizes
    )


if __name__ == "__main__":
    main()
