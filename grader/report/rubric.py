"""A rubric: what people mark by hand in an exercise, beside the automatic points.

[rubric.causal_attention]
report = { points = 10, text = "It says what was measured." }
extra = { bonus = 2 }              # adds points, and nothing to the maximum

[weights.causal_attention]         # for single students: a factor, or 0 to excuse somebody
17 = { report = 0 }
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from headcheck.exercises.contract_checks import suggest
from headcheck.exercises.contract_file import MOST_POINTS
from headcheck.exercises.toml_lines import Place
from headcheck.grader.report.rounding import HUNDREDTH, round_sum

NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9_-]{0,39}")
"""the name of a criterion, which becomes the header of a column"""
KEYS = ("bonus", "points", "text")
SHEET_COLUMNS = ("student", "name", "exercise", "handed_in_by")
"""the first columns of a sheet of marks, after which no criterion can be called"""
MOST_WEIGHT = 100.0


@dataclass(frozen=True, slots=True)
class Criterion:
    """One thing that people mark, with the most points that it gives."""

    name: str
    points: float
    text: str = ""
    """a sentence for the student"""
    bonus: bool = False
    """whether its points add nothing to the maximum"""


@dataclass(frozen=True, slots=True)
class Rubric:
    """What people mark in an exercise."""

    criteria: tuple[Criterion, ...] = ()
    weights: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """factors other than 1, by student and criterion; 0 for a student who is excused"""
    scale: float = 1.0
    """what a point of a criterion adds to the score"""

    @property
    def points(self) -> float:
        """The sum of the points without bonuses."""
        return sum(each.points for each in self.criteria if not each.bonus)

    def get_weight(self, student: str, name: str) -> float:
        """Return the factor of a criterion for a student."""
        return self.weights.get(student, {}).get(name, 1.0)


Rubrics = Mapping[str, Rubric]
"""rubrics by the slug of their exercise"""


def read_rubric(value: object, place: Place) -> Rubric:
    """Return the rubric in a table of criteria. Raises the error of its place."""
    if not isinstance(value, dict):
        raise place.fail_type(value, "a table of criteria, as in style = { points = 4 }")
    return Rubric(tuple(_read_criterion(name, each, place) for name, each in value.items()))


def _read_criterion(name: str, value: object, rubric_place: Place) -> Criterion:
    place = rubric_place.enter(name)
    if not NAME.fullmatch(name):
        raise place.fail(
            f"{name!r} is no name for a criterion: write up to 40 letters a to z, digits, _ and -"
        )
    if name in SHEET_COLUMNS:
        raise place.fail(f"{name!r} is a column of the sheet of marks: choose another name")
    if not isinstance(value, dict):
        raise place.fail_type(value, "a table, as in { points = 4 }")
    for key in value:
        if key not in KEYS:
            raise place.enter(key).fail(f"there is no key {key!r}; {suggest(key, KEYS)}")
    if ("points" in value) == ("bonus" in value):
        raise place.fail(f"{name!r} needs either `points` or, if it is a bonus, `bonus`")
    key = "bonus" if "bonus" in value else "points"
    points, text = value[key], value.get("text", "")
    if not is_between(points, HUNDREDTH, MOST_POINTS):
        raise place.enter(key).fail_type(points, f"a number from 0.01 to {MOST_POINTS:.0f}")
    if not isinstance(text, str):
        raise place.enter("text").fail_type(text, "a sentence")
    return Criterion(name, round_sum(points), text, bonus=key == "bonus")


def read_weights(value: object, rubric: Rubric, place: Place) -> Rubric:
    """Return a rubric with the weights of single students. Raises the error of its place."""
    if not isinstance(value, dict):
        raise place.fail_type(value, "a table of students, as in 17 = { style = 0 }")
    known = [each.name for each in rubric.criteria]
    for student, factors in value.items():
        at = place.enter(student)
        if not isinstance(factors, dict):
            raise at.fail_type(factors, "a table of criteria and factors, as in { style = 0 }")
        for name, factor in factors.items():
            if name not in known:
                raise at.enter(name).fail(f"there is no criterion {name!r}; {suggest(name, known)}")
            if not is_between(factor, 0.0, MOST_WEIGHT):
                raise at.enter(name).fail_type(factor, f"a number from 0 to {MOST_WEIGHT:.0f}")
    return replace(rubric, weights=value)


def is_number(value: object) -> bool:
    """Whether a value of a file is a number."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def is_between(value: object, least: float, most: float) -> bool:
    """Whether a value of a file is a number within these bounds, which NaN never is."""
    return is_number(value) and least <= value <= most  # type: ignore[operator]  # a number
