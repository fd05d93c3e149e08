"""Render a course as one self-contained page: scores, common mistakes and hard properties.

Pure functions. All numbers are computed here. The page's script only sorts and filters them; its
digest is the only one that the page allows to run. Text from submissions is sanitised and escaped.
"""

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import date

from headcheck.grader.course.export.gradebook import Gradebook, format_number, hide_students
from headcheck.grader.course.marks import MarkedCriterion, format_mark, list_criterion_names
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.languages import SOURCE, get_language
from headcheck.grader.report.records import Report
from headcheck.grader.report.render import html
from headcheck.grader.report.render.heading import Occasion, make_heading
from headcheck.grader.report.render.overview import ClassResult, make_overview
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.view import format_points, format_status, tally_statuses
from headcheck.properties.violations.violation import NOT_FAILED, Status

ANSWERED = frozenset({Status.PASSED, Status.FAILED, Status.CRASHED})
"""the statuses that say whether a submission satisfies a check"""


@dataclass(frozen=True, slots=True)
class MarkCell:
    """A student's points in one criterion, and the number to sort by."""

    text: str
    value: float


@dataclass(frozen=True, slots=True)
class DashboardRow:
    """One student's result in one exercise, as displayed."""

    student: str
    name: str
    exercise: str
    score: str
    share: float
    status: str
    mistake: str
    attempt: int
    late: str
    """what late work lost, or that it is late"""
    overridden: bool
    seconds: float
    group: str
    link: str
    marks: tuple[MarkCell, ...]
    """a cell for each criterion of all rubrics"""


@dataclass(frozen=True, slots=True)
class HardProperty:
    """A property, and how many of the students who tried it failed."""

    claim: str
    exercise: str
    broken: int
    tried: int


def render(
    book: Gradebook,
    version: str,
    links: Sequence[str] = (),
    *,
    day: date | None = None,
) -> str:
    """Return the page; `links`, if any, lead to the report of each result, in order."""
    links = links or [""] * len(book.results)
    template = html.get_environment().get_template("dashboard.html.j2")
    criteria = list_criterion_names(c for each in book.results for c in each.criteria)
    rows = zip(book.results, links, strict=True)
    return template.render(
        version=sanitise_line(version),
        sandbox="",
        heading=make_heading(book.exercises, Occasion(book.run, day)),
        tally=tally_statuses([each.status for each in book.results]),
        grouped=any(each.group for each in book.results),
        students=len({each.student for each in book.results}),
        mean=_format_mean(book),
        criteria=criteria,
        rows=[_make_row(each, link, criteria) for each, link in rows],
        overview=make_overview(_make_entries(book, links)),
        hard=rank_properties(book.results),
    )


def render_pages(book: Gradebook, version: str, day: date | None = None) -> dict[str, str]:
    """Return each result's report, by the name of its page."""
    records = [each.record for each in book.results]
    report = Report(1, version, tuple(records))
    marks = [_view_marks(each) for each in book.results]
    language = get_language(next((each.language for each in book.results), SOURCE))
    occasion = Occasion(book.run, day)
    return html.render_pages(report, _label_results(book), occasion, marks, language)


def _view_marks(result: ExerciseResult) -> html.MarksView | None:
    """Return what people marked; not who did and when, since students may see it."""
    if not result.criteria:
        return None
    judged, marked = format_number(result.judged), format_number(result.marked)
    return html.MarksView(
        score=format_points(result.earned, result.max_score),
        explanation=f"The checks give {judged} points, and the marks add {marked}.",
        criteria=tuple(_view_mark(each) for each in result.criteria),
    )


def _view_mark(each: MarkedCriterion) -> html.MarkView:
    name, about = sanitise_line(each.criterion.name), sanitise(each.criterion.text)
    return html.MarkView(name, about, format_mark(each), sanitise(each.comment))


def anonymise(book: Gradebook, salt: str) -> Gradebook:
    """Replace students with numbers, in an order that depends only on the salt.

    Messages and examples stay, and may contain names that a student chose.
    """
    ids = sorted(
        {each.student for each in book.results},
        key=lambda i: hashlib.sha256(f"{salt}\0{i}".encode()).digest(),
    )
    return hide_students(book, {each: f"student {i:04d}" for i, each in enumerate(ids, start=1)})


def rank_properties(results: Sequence[ExerciseResult]) -> list[HardProperty]:
    """Return the failed properties, beginning with those that the largest share of students failed.

    Submissions that ran out of time or memory do not count: they fail all later properties alike.
    """
    broken: Counter[tuple[str, str, str]] = Counter()
    tried: Counter[tuple[str, str, str]] = Counter()
    for each in results:
        for p in each.record.properties:
            key = (each.exercise, p.name, sanitise_line(p.claim))
            tried[key] += p.status in ANSWERED
            broken[key] += p.status in ANSWERED - NOT_FAILED
    order = sorted((k for k in broken if broken[k]), key=lambda k: (-broken[k] / tried[k], k))
    return [HardProperty(key[2], sanitise_line(key[0]), broken[key], tried[key]) for key in order]


def _make_entries(book: Gradebook, links: Sequence[str]) -> list[ClassResult]:
    return [
        ClassResult(each.record, label, link, each.score, each.max_score)
        for each, label, link in zip(book.results, _label_results(book), links, strict=True)
    ]


def _label_results(book: Gradebook) -> list[str]:
    """Return a name for each result, which includes the exercise if there are several."""
    several = len(book.exercises) > 1
    return [
        f"{each.name or each.student}{f', {each.exercise}' if several and each.exercise else ''}"
        for each in book.results
    ]


def _make_row(each: ExerciseResult, link: str, criteria: Sequence[str]) -> DashboardRow:
    found = {mark.criterion.name: mark for mark in each.criteria}
    return DashboardRow(
        student=sanitise_line(each.student),
        name=sanitise_line(each.name) if each.name != each.student else "",
        exercise=sanitise_line(each.exercise) or "no exercise",
        score=format_points(each.score, each.max_score) if each.is_judged else "–",
        share=each.score / each.max_score if each.max_score else 0.0,
        status=format_status(each.status),
        mistake=" + ".join(format_status(found.name) for found in each.record.diagnosis),
        attempt=each.attempt,
        late=each.calculation or ("late" if each.late else ""),
        overridden=each.override is not None,
        seconds=each.record.seconds,
        group=sanitise_line(each.group),
        link=link,
        marks=tuple(_make_cell(found.get(name)) for name in criteria),
    )


def _make_cell(each: MarkedCriterion | None) -> MarkCell:
    if each is None:
        return MarkCell("", -2)
    return MarkCell(format_mark(each), -1 if each.points is None else each.points)


def _format_mean(book: Gradebook) -> str:
    judged = [each for each in book.results if each.max_score and each.is_judged]
    shares = [each.score / each.max_score for each in judged]
    return f"{format_number(round(100 * sum(shares) / len(shares), 1))} %" if shares else "–"
