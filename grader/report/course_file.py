"""A course file, `headcheck.toml`: points, feedback, deadlines, groups of students, rubrics.

    round = 0.5                        # the step, in points, that scores are rounded to
    total = 100                        # the points of every exercise, marks by hand included
    feedback = "message"               # or a table: see docs/feedback-levels.md
    thorough = ["kv_cache"]            # exercises in which everything is asked; true: in all

    [points]
    slip = 15                          # percent off an answer that stops and one change repairs

    [points.multi_head_attention]      # of groups of properties, where they are not the usual
    values = 40

    [deadlines.week-1]                 # of the run week-1: see grader/report/deadlines.py
    due = 2026-02-01T18:00:00+01:00

    [groups]                           # of students: see grader/report/groups.py
    blue = ["s17", "s18"]

A rubric is in tables of its own: see `headcheck.grader.report.rubric`.

Students get it with the exercise, so that their own checks use the same points. Grading never uses
a file that a student handed in: a course file beside the work is read only when people check their
own work.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.exercises.contract_checks import suggest
from headcheck.exercises.contract_file import CONTRACT_FILE, MOST_POINTS
from headcheck.exercises.toml_lines import Place, Table, parse, read_text
from headcheck.grader import UserError
from headcheck.grader.report.deadlines import Deadline, read_deadlines
from headcheck.grader.report.feedback import Feedback, bind_feedback, read_feedback, tells_more
from headcheck.grader.report.groups import NO_GROUPS, GroupSettings, read_groups
from headcheck.grader.report.points import SLIP, Points, list_groups
from headcheck.grader.report.render.sanitise import sanitise_line
from headcheck.grader.report.rounding import HUNDREDTH, explain_bad_step, round_sum, split_total
from headcheck.grader.report.rubric import (
    Rubric,
    Rubrics,
    is_between,
    is_number,
    read_rubric,
    read_weights,
)
from headcheck.properties.terms.depth import Depth
from headcheck.properties.terms.group import PropertyGroup

COURSE_FILE = "headcheck.toml"
KEYS = (
    *("round", "total", "feedback", "thorough", "points", "rubric", "weights"),
    *("deadlines", "groups", "teams", "alone"),
)
MAX_BYTES = 1 << 16
"""far more than a file needs, even with the groups of a class of a thousand"""
MAX_MESSAGE = 1000
"""the maximum length of a message, limited because it may quote the file or its name"""
MISSING = "there is no such file: name a course file"


class BadCourseFile(UserError):
    """A course file that cannot be used; the one-line message says where and what to do."""

    def __init__(self, text: str) -> None:
        super().__init__(sanitise_line(text, MAX_MESSAGE))


@dataclass(frozen=True)
class CourseFile:
    """The settings of a course for grades and feedback."""

    points: Points | None = None
    rounding: float = HUNDREDTH
    slip: float = SLIP
    """what the change that undoes a slip costs, in percent of the points"""
    feedback: Feedback | None = None
    """None if the file does not set it"""
    depth: Depth | None = None
    """how much is asked in exercises that are not `thorough`; None if the file does not set it"""
    thorough: frozenset[str] = frozenset()
    """the slugs of exercises in which everything is asked"""
    rubrics: Rubrics = field(default_factory=dict)
    """what people mark by hand"""
    deadlines: Mapping[str, Deadline] = field(default_factory=dict)
    """by the names of runs"""
    groups: GroupSettings = NO_GROUPS
    path: Path | None = None
    """None if there is no file"""

    def limit(self, wanted: Feedback | None) -> tuple[Feedback | None, str]:
        """Return the feedback for people who check their own work, and why it is reduced.

        They may ask for less than the course file allows, but not for more.
        """
        if self.feedback is None:
            return wanted, ""
        told = bind_feedback(wanted, self.feedback)
        if wanted is None or not tells_more(wanted, self.feedback):
            return told, ""
        text = f"{self.path} lets students see less than --feedback {wanted.level}, and counts"
        return told, sanitise_line(text, MAX_MESSAGE)


NO_COURSE_FILE = CourseFile()


def find_course_file(exercise: Exercise | None, work: Path | None = None) -> Path | None:
    """Return the course file in the folder of somebody's own work, or in the exercise's folder."""
    folders = [] if work is None else [work]
    if exercise is not None and not exercise.is_ours:
        folders.append(exercise.folder)
    paths = (folder / COURSE_FILE for folder in folders)
    return next((path for path in paths if path.exists()), None)


def read_course_file(path: Path | None, exercise: Exercise | None = None) -> CourseFile:
    """Return the settings of a course file; without a file, nothing is set. Raises BadCourseFile.

    `exercise` is an exercise of the course whose points the file may set.
    """
    if path is None:
        return NO_COURSE_FILE
    if path.exists() and not (path.is_file() and path.stat().st_size <= MAX_BYTES):
        raise BadCourseFile(f"{path}, line 1: is no file of at most {MAX_BYTES >> 10} KiB")
    place = Place(path, read_text(path, MISSING, BadCourseFile), error=BadCourseFile)
    table = parse(place)
    for key in table:
        if key not in KEYS:
            raise place.enter(key).fail(_explain_unknown_key(key))
    said = table.get("feedback")
    thorough = _read_thorough(table.get("thorough"), place.enter("thorough"), exercise)
    feedback = None if said is None else read_feedback(said, place.enter("feedback"))
    course = CourseFile(
        points=_read_points(table.get("points"), place.enter("points"), exercise),
        slip=_read_slip(table.get("points"), place.enter("points")),
        rounding=_read_step(table.get("round", HUNDREDTH), place.enter("round")),
        feedback=feedback,
        depth=None if thorough is None else Depth.THOROUGH if thorough is True else Depth.USUAL,
        thorough=thorough if isinstance(thorough, frozenset) else frozenset(),
        rubrics=_read_rubrics(table, place, exercise),
        deadlines=read_deadlines(table.get("deadlines", {}), place.enter("deadlines")),
        groups=read_groups(table, place),
        path=path,
    )
    total = table.get("total")
    return course if total is None else _scale(course, total, place.enter("total"), exercise)


def _scale(
    course: CourseFile, total: object, place: Place, exercise: Exercise | None
) -> CourseFile:
    """Return the course with points of checks and marks that add up to a total in each exercise."""
    if not is_between(total, HUNDREDTH, MOST_POINTS):
        raise place.fail_type(total, f"a number of points from 0.01 to {MOST_POINTS:.0f}")
    points, rubrics = dict(course.points or {}), dict(course.rubrics)
    for each in BY_SLUG.values() if exercise is None else (exercise,):
        groups, rubric = list_groups(each, course.points), rubrics.get(each.slug, Rubric())
        whole = round_sum(float(total))  # type: ignore[arg-type]  # it is a number
        checks, marks = split_total(whole, sum(groups.values()), rubric.points)
        points[each.slug] = {group: checks * worth for group, worth in groups.items()}
        rubrics |= {each.slug: replace(rubric, scale=marks)} if rubric.criteria else {}
    return replace(course, points=points, rubrics=rubrics)


def _explain_unknown_key(key: str) -> str:
    if key in BY_SLUG:
        return f"there is no key {key!r}; points are in a table [points.{key}]"
    if key == "language":
        return "there is no key 'language' any more: reports are in English"
    return f"there is no key {key!r}; {suggest(key, KEYS)}"


def _read_step(value: object, place: Place) -> float:
    if not is_number(value):
        raise place.fail_type(value, "a number, as in 0.5")
    step = float(value)  # type: ignore[arg-type]  # it is a number
    if problem := explain_bad_step(step):
        raise place.fail(problem)
    return step


def _read_points(value: object, place: Place, exercise: Exercise | None) -> Points | None:
    if value is None:
        return None
    if isinstance(value, dict):
        value = {slug: groups for slug, groups in value.items() if slug != "slip"}
    exercises = _read_exercises(value, place, exercise)
    return {slug: _read_groups(groups, place.enter(slug)) for slug, groups in exercises.items()}


def _read_rubrics(table: Table, place: Place, exercise: Exercise | None) -> Rubrics:
    at, beside = place.enter("rubric"), place.enter("weights")
    exercises = _read_exercises(table.get("rubric", {}), at, exercise)
    rubrics = {slug: read_rubric(each, at.enter(slug)) for slug, each in exercises.items()}
    for slug, weights in _read_exercises(table.get("weights", {}), beside, exercise).items():
        if slug not in rubrics:
            raise beside.enter(slug).fail(f"there is no [rubric.{slug}] to which these belong")
        rubrics[slug] = read_weights(weights, rubrics[slug], beside.enter(slug))
    return rubrics


def _read_exercises(value: object, place: Place, exercise: Exercise | None) -> Table:
    """Return a table of exercises. Raises BadCourseFile for an exercise that does not exist."""
    if not isinstance(value, dict):
        (name,) = place.keys
        raise place.fail_type(value, f"a table of exercises: write [{name}.SLUG]")
    for slug in value:
        _refuse_unknown(slug, place.enter(slug), exercise)
    return value


def _read_slip(value: object, place: Place) -> float:
    """Return the price of a slip, in percent of the points."""
    slip = value.get("slip", SLIP) if isinstance(value, dict) else SLIP
    if not is_between(slip, 0.0, 100.0):
        raise place.enter("slip").fail_type(slip, "a number of percent from 0 to 100")
    return float(slip)


def _read_thorough(
    value: object, place: Place, exercise: Exercise | None
) -> bool | frozenset[str] | None:
    """Return the exercises in which everything is asked: True for all; None if it is not said."""
    if value is None or isinstance(value, bool):
        return value
    if not (isinstance(value, list) and all(isinstance(each, str) for each in value)):
        raise place.fail_type(value, 'true, or a list of exercises, as in ["kv_cache"]')
    for slug in value:
        _refuse_unknown(slug, place, exercise)
    return frozenset(value)


def _refuse_unknown(slug: str, place: Place, exercise: Exercise | None) -> None:
    """Raise BadCourseFile at this place if no exercise has this name."""
    if not _is_exercise(slug, place.path, exercise):
        known = suggest(slug, [*BY_SLUG, *([exercise.slug] if exercise else [])])
        listed = known if known.startswith("did") else "see `headcheck list`"
        raise place.fail(f"there is no exercise {slug!r}; {listed}")


def _is_exercise(slug: str, path: Path, exercise: Exercise | None) -> bool:
    """Whether an exercise has this name: ours, the one being checked, or one in a nearby folder."""
    if slug in BY_SLUG or (exercise is not None and slug == exercise.slug):
        return True
    around = {path.resolve().parent, path.resolve().parent.parent}
    around |= {exercise.folder.parent} if exercise is not None else set()
    named = Path(slug).name == slug
    return named and any((folder / slug / CONTRACT_FILE).is_file() for folder in around)


def _read_groups(groups: object, place: Place) -> Mapping[str, float]:
    if not isinstance(groups, dict):
        raise place.fail_type(groups, "a table of groups and points, as in values = 40")
    known = [group.value for group in PropertyGroup]
    for group, points in groups.items():
        at = place.enter(group)
        if group not in known:
            raise at.fail(f"there is no group {group!r}; {suggest(group, known)}")
        if not is_between(points, 0.0, MOST_POINTS):
            raise at.fail_type(points, f"a number from 0 to {MOST_POINTS:.0f}")
    return groups
