"""Add what people marked by hand to the automatic points. Pure functions."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from headcheck.grader.course.store.records import Mark
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.rounding import format_number, round_points, round_sum
from headcheck.grader.report.rubric import Criterion, Rubric, Rubrics

NO_RUBRIC = Rubric()


@dataclass(frozen=True, slots=True)
class MarkedCriterion:
    """A criterion for one student, with the mark in force if there is one."""

    criterion: Criterion
    weight: float = 1.0
    """the factor of this student; 0 if the student is excused"""
    mark: Mark | None = None
    scale: float = 1.0
    """what a point of the criterion adds to the score"""

    @property
    def points(self) -> float | None:
        """The points as marked, at most those of the criterion; None without a mark."""
        if self.mark is None or self.mark.points is None:
            return None
        return min(self.mark.points, self.criterion.points)

    @property
    def earned(self) -> float:
        """The points that count for this student."""
        return self.scale * self.weight * (self.points or 0.0)

    @property
    def full(self) -> float:
        """The most points that it adds to the score of somebody without weights."""
        return self.scale * self.criterion.points

    @property
    def most(self) -> float:
        """The points that it adds to what counts for this student; none for a bonus."""
        return 0.0 if self.criterion.bonus else self.weight * self.full

    @property
    def comment(self) -> str:
        """The comment on the mark."""
        return "" if self.points is None or self.mark is None else self.mark.comment

    @property
    def is_open(self) -> bool:
        """Whether somebody still has to mark it; nobody has to give a bonus."""
        return self.points is None and bool(self.weight) and not self.criterion.bonus

    def without_comment(self) -> "MarkedCriterion":
        """Return it without who gave the mark, and what they wrote."""
        mark = self.mark and replace(self.mark, student="", comment="", author="", created="")
        return replace(self, mark=mark)


def find_newest(marks: Iterable[Mark]) -> dict[tuple[str, str, str], Mark]:
    """Return the marks in force: of several marks for the same thing the last one counts."""
    return {each.key: each for each in marks}


def list_criteria(
    rubrics: Rubrics, marks: Mapping[tuple[str, str, str], Mark], student: str, exercise: str
) -> tuple[MarkedCriterion, ...]:
    """Return the criteria of one student in one exercise, in the order of the rubric."""
    rubric = rubrics.get(exercise, NO_RUBRIC)
    return tuple(
        MarkedCriterion(
            each,
            rubric.get_weight(student, each.name),
            marks.get((student, exercise, each.name)),
            rubric.scale,
        )
        for each in rubric.criteria
    )


def list_weighted_strangers(
    rubrics: Rubrics, answered: Collection[tuple[str, str]]
) -> tuple[str, ...]:
    """Return the students with weights in a rubric who did not answer its exercise."""
    weighted = {(who, slug) for slug, each in rubrics.items() for who in each.weights}
    return tuple(sorted({who for who, slug in weighted if (who, slug) not in answered}))


def add_marks(
    judged: float, most: float, criteria: Sequence[MarkedCriterion]
) -> tuple[float, float]:
    """Return a score and its maximum: automatic points, of `most`, and the marks there are.

    The maximum is the same for everybody. Weights change what counts for a student, and the score
    is the earned share of that, in points of the maximum. So somebody who is excused neither gains
    nor loses. A bonus is added afterwards, and may lead above the maximum.
    """
    asked = [each for each in criteria if not each.criterion.bonus]
    full = round_sum(most + sum(each.full for each in asked))
    counted = most + sum(each.most for each in asked)
    earned = judged + sum(each.earned for each in asked)
    bonus = sum(each.earned for each in criteria if each.criterion.bonus)
    share = round_points(earned * full / counted, full) if counted else 0.0
    return round_sum(share + bonus), full


def list_criterion_names(criteria: Iterable[MarkedCriterion]) -> list[str]:
    """Return the names of these criteria, each once, in their order."""
    return list(dict.fromkeys(each.criterion.name for each in criteria))


def describe_marks(criteria: Iterable[MarkedCriterion]) -> list[str]:
    """Return a line for each criterion, with its points and the comment, which may have more."""
    return [f"{name_mark(each)}: {describe_mark(each)}" for each in criteria]


def name_mark(each: MarkedCriterion) -> str:
    """Return the name of a criterion, in the words of an export."""
    return f"Marked by hand, {sanitise_line(each.criterion.name)}"


def describe_mark(each: MarkedCriterion) -> str:
    """Return the points of a criterion and the comment, which may have several lines."""
    return ". ".join(filter(None, (format_mark(each), sanitise(each.comment))))


def format_mark(each: MarkedCriterion) -> str:
    """Format the points of a criterion, or why there are none."""
    if not each.weight:
        return "excused"
    if each.points is None:
        return "no bonus" if each.criterion.bonus else "not yet marked"
    most = f"{'up to ' if each.criterion.bonus else ''}{format_number(each.criterion.points)}"
    factor = "" if each.weight == 1 else f", counted {format_number(each.weight)} times"
    scaled = "" if each.scale == 1 else f", adding {format_number(each.earned)}"
    return f"{format_number(each.points)} of {most} points{factor}{scaled}"
