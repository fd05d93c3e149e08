"""Render a course as one self-contained page: scores, common mistakes and hard properties.

Pure functions. All numbers are computed here. The page's script only sorts and filters them; its
digest is the only one that the page allows to run. Text from submissions is sanitised and escaped.
"""

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date

from headcheck.grader.course.export.gradebook import Gradebook, format_number, hide_students
from headcheck.grader.course.marks import MarkedCriterion, format_mark, list_criterion_names
from headcheck.grader.course.results import ExerciseResult
from headcheck.grader.report.records import Report, SubmissionRecord
from headcheck.grader.report.render import html
from headcheck.grader.report.render.heading import Occasion, make_heading
from headcheck.grader.report.render.overview import ClassResult, make_overview
from headcheck.grader.report.render.sanitise import sanitise, sanitise_line
from headcheck.grader.report.render.view import format_points, format_status, tally_statuses
from headcheck.properties.violations.violation import NOT_FAILED, Status

TITLES = ("Name", "Exercise", "Score", "Status", "Mistake", "Attempt", "Late", "Seconds", "Group")
"""the columns after the student's, before those of what people mark"""
ANSWERED = frozenset({Status.PASSED, Status.FAILED, Status.CRASHED})
"""the statuses that say whether a submission satisfies a check"""


@dataclass(frozen=True, slots=True)
class Cell:
    """What a column shows of a result, and the number to sort by if it is not the text."""

    text: str = ""
    value: float | None = None
    kind: str = ""
    """the class in the page, such as `number`"""
    label: str = ""
    """what precedes the text where rows are blocks, and no header is above it"""
    is_chosen: bool = False
    """whether people chose the text, which may be written from right to left"""


@dataclass(frozen=True, slots=True)
class DashboardRow:
    """One student's result in one exercise, as displayed."""

    student: str
    status: str
    link: str
    cells: tuple[Cell, ...]


@dataclass(frozen=True, slots=True)
class DashboardTable:
    """Results, with the columns in which at least one of them has something."""

    titles: tuple[str, ...]
    rows: tuple[DashboardRow, ...]
    decided: bool
    """whether a person set a score"""


@dataclass(frozen=True, slots=True)
class HardProperty:
    """A property, and for how many of the students who tried it it was the first to fail."""

    claim: str
    exercise: str
    broken: int
    tried: int


def render(
    book: Gradebook, version: str, links: Sequence[str] = (), *, day: date | None = None
) -> str:
    """Return the page; `links`, if any, lead to what `render_pages` returns, in this order."""
    pages = iter(links)
    links = ["" if each.is_absent else next(pages, "") for each in book.results]
    entries = [
        ClassResult(each.record, label, link, each.score, each.max_score)
        for each, label, link in zip(book.results, _label_results(book), links, strict=True)
    ]
    template = html.get_environment().get_template("dashboard.html.j2")
    return template.render(
        version=sanitise_line(version),
        sandbox="",
        heading=make_heading(book.exercises, Occasion(book.run, day)),
        tally=tally_statuses([each.status for each in book.results]),
        students=len({each.student for each in book.results}),
        mean=_format_mean(book),
        table=_make_table(book.results, links),
        overview=make_overview(entries),
        hard=rank_properties(book.results),
    )


def render_pages(book: Gradebook, version: str, day: date | None = None) -> dict[str, str]:
    """Return the report of each result with a submission, by the name of its page."""
    book = replace(book, results=tuple(each for each in book.results if not each.is_absent))
    report = Report(1, version, tuple(each.record for each in book.results))
    said = [_view_decisions(each) for each in book.results]
    occasion = Occasion(book.run, day)
    return html.render_pages(report, _label_results(book), occasion, said)


def _view_decisions(result: ExerciseResult) -> html.DecisionsView:
    """Return what people marked, decided and said; not who did and when."""
    return html.DecisionsView(
        score=format_points(result.score, result.max_score),
        explanations=tuple(_explain_score(result)),
        criteria=tuple(
            html.MarkView(
                sanitise_line(each.criterion.name),
                sanitise(each.criterion.text),
                format_mark(each),
                sanitise(each.comment),
            )
            for each in result.criteria
        ),
        comments=tuple(map(sanitise, result.comments)),
    )


def _explain_score(result: ExerciseResult) -> Iterator[str]:
    """Yield how a score follows from the checks, if it is not what they give."""
    judged, marked = format_number(result.judged), format_number(result.marked)
    if result.criteria:
        yield f"The checks give {judged} points, and the marks add {marked}."
    if result.explanation:
        yield f"Late work: {result.explanation}."
    if result.override is not None:
        reason = f": {sanitise(result.override.reason)}" if result.override.reason else "."
        yield f"A person set the score to {format_number(result.score)} points{reason}"


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
    """Return the properties that failed first, beginning with the largest share of students.

    What fails after the first property follows from it, or may do so. Submissions that ran out of
    time or memory do not count: they fail all later properties alike.
    """
    broken: Counter[tuple[str, str, str]] = Counter()
    tried: Counter[tuple[str, str, str]] = Counter()
    for each in results:
        causes = find_causes(each.record)
        for p in each.record.properties:
            key = (each.exercise, p.name, sanitise_line(p.claim))
            tried[key] += p.status in ANSWERED
            broken[key] += p.name in causes
    order = sorted((k for k in broken if broken[k]), key=lambda k: (-broken[k] / tried[k], k))
    return [HardProperty(key[2], sanitise_line(key[0]), broken[key], tried[key]) for key in order]


def find_causes(record: SubmissionRecord) -> frozenset[str]:
    """Return the name of the first property that fails.

    If known mistakes explain it, the first failure that they do not explain is named as well.
    """
    failed = [p for p in record.properties if p.status in ANSWERED - NOT_FAILED]
    others = [p for p in failed if not p.follows] if record.diagnosis else []
    return frozenset(p.name for p in (*failed[:1], *others[:1]))


def _label_results(book: Gradebook) -> list[str]:
    """Return a name for each result, which includes the exercise if there are several."""
    several = len(book.exercises) > 1
    return [
        f"{each.name or each.student}{f', {each.exercise}' if several and each.exercise else ''}"
        for each in book.results
    ]


def _make_table(results: Sequence[ExerciseResult], links: Sequence[str]) -> DashboardTable:
    """Return the table of these results without the columns that are empty."""
    criteria = list_criterion_names(c for each in results for c in each.criteria)
    cells = [_list_cells(each, criteria) for each in results]
    titles = [*TITLES, *criteria]
    used = [i for i in range(len(titles)) if any(row[i].text for row in cells)]
    rows = []
    for each, link, row in zip(results, links, cells, strict=True):
        about = sanitise_line(each.student), format_status(each.status), link
        rows.append(DashboardRow(*about, tuple(row[i] for i in used)))
    decided = any(each.override is not None for each in results)
    return DashboardTable(tuple(titles[i] for i in used), tuple(rows), decided)


def _list_cells(each: ExerciseResult, criteria: Sequence[str]) -> list[Cell]:
    """Return the cells of a result in the order of `TITLES` and of the criteria."""
    seconds, status = each.record.seconds, format_status(each.status)
    share = each.score / each.max_score if each.max_score else 0.0
    score = format_points(each.score, each.max_score) if each.is_judged else "–"
    found = {mark.criterion.name: mark for mark in each.criteria}
    return [
        Cell(sanitise_line(each.name) if each.name != each.student else "", is_chosen=True),
        Cell(sanitise_line(each.exercise) or "no exercise"),
        Cell(f"{score}{'*' * (each.override is not None)}", round(share, 6), "number"),
        Cell(status, kind=status.replace(" ", "-")),
        Cell(" + ".join(format_status(found.name) for found in each.record.diagnosis)),
        Cell(f"{each.attempt or ''}", each.attempt, "number", "attempt"),
        Cell(each.calculation or ("late" if each.late else "")),
        Cell(f"{seconds:.1f}" if seconds else "", round(seconds, 3), "number", "seconds"),
        Cell(sanitise_line(each.group), label="group", is_chosen=True),
        *(_make_cell(found.get(name), name) for name in criteria),
    ]


def _make_cell(each: MarkedCriterion | None, name: str) -> Cell:
    if each is None:
        return Cell("", -2, label=name)
    return Cell(format_mark(each), -1 if each.points is None else each.points, label=name)


def _format_mean(book: Gradebook) -> str:
    scored = (each for each in book.results if each.is_judged and not each.is_absent)
    shares = [each.score / each.max_score for each in scored if each.max_score]
    return f"{format_number(round(100 * sum(shares) / len(shares), 1))} %" if shares else "–"
