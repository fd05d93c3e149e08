"""Render a course as one self-contained page: scores, common mistakes and hard properties.

Pure functions. All numbers are computed here; the page's script, which is allowed by its digest
alone, only sorts, filters and draws them. Text from submissions is sanitised and escaped.
"""

import base64
import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files

from markupsafe import Markup

from grader.course.export.gradebook import Gradebook, format_number
from grader.course.results import ExerciseResult
from grader.report.records import Report
from grader.report.render.html import get_environment, make_page_name, render_page
from grader.report.render.sanitise import sanitise, sanitise_line
from grader.report.render.view import format_points, format_status, tally_statuses

BINS = 10
STATUS_LETTERS = {"passed": "p", "failed": "f", "not_tried": "n"}
"""a property's status as one letter of a matrix row; every abnormal status is c"""
ABNORMAL_STATUSES = ("crashed", "timed_out", "out_of_memory")
UNNAMED_PREFIX = "No known mistake explains it. The first check that fails: "


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
    late: bool
    overridden: bool
    seconds: float
    ends: str
    """a letter for every property of the page, in its order; blank if it does not apply"""
    link: str


@dataclass(frozen=True, slots=True)
class MistakeCluster:
    """The students who made the same mistake, and its smallest example."""

    sentence: str
    named: bool
    students: tuple[tuple[str, str], ...]
    """their names, and the links to their reports"""
    message: str
    code: str


@dataclass(frozen=True, slots=True)
class HardProperty:
    """A property, and how many of those who tried fail it."""

    claim: str
    exercise: str
    broken: int
    tried: int


@dataclass(frozen=True, slots=True)
class HistogramBin:
    """The number of results between two shares of the points."""

    label: str
    count: int
    share: float
    """of the largest bin"""


def render(
    book: Gradebook, version: str, links: Sequence[str] = (), *, similar: bool = False
) -> str:
    """Return the page; `links`, if any, lead to the report of each result, in order.

    `similar` says that there is a page on similar submissions next to it.
    """
    rows = _make_rows(book, links or [""] * len(book.results))
    script = _read_script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    template = get_environment().get_template("dashboard.html.j2")
    return template.render(
        version=sanitise_line(version),
        sandbox="",
        run=sanitise_line(book.run),
        similar=similar,
        tally=tally_statuses([each.status for each in book.results]),
        students=len(book.students),
        mean=_format_mean(book),
        rows=rows,
        bins=compute_histogram(book.results),
        clusters=cluster_mistakes(book.results, rows),
        hard=rank_properties(book.results),
        ended=[row for row in rows if row.status in map(format_status, ABNORMAL_STATUSES)],
        claims=[f"{exercise}: {claim}" for exercise, _, claim in _list_properties(book.results)],
        script=Markup(script),
        digest=digest,
    )


def render_pages(book: Gradebook, version: str) -> dict[str, str]:
    """Return the report of each result by the name of its page."""
    records = [each.record for each in book.results]
    report = Report(1, version, tuple(records))
    return {make_page_name(r, i): render_page(r, report) for i, r in enumerate(records)}


def anonymise(book: Gradebook, salt: str) -> Gradebook:
    """Replace students by numbers, in an order that depends on the salt alone.

    Messages and examples stay, and may contain names that a student chose.
    """
    ids = sorted(book.students, key=lambda i: hashlib.sha256(f"{salt}\0{i}".encode()).digest())
    names = {student: f"student {i:04d}" for i, student in enumerate(ids, start=1)}
    hidden = [
        replace(
            each,
            student=names[each.student],
            name="",
            email="",
            handle="",
            submitted=None,
            comments=(),
            record=replace(each.record, file="", student=names[each.student]),
        )
        for each in book.results
    ]
    hidden.sort(key=lambda each: (each.student, each.exercise))
    return Gradebook(book.run, tuple(hidden))


def compute_histogram(results: Sequence[ExerciseResult]) -> list[HistogramBin]:
    """Return the distribution of scores as shares of the maximum; full scores have a bin."""
    counts = Counter(
        min(int(each.score / each.max_score * BINS), BINS) for each in results if each.max_score
    )
    largest = max(counts.values(), default=1)
    labels = [f"{100 * i // BINS}–{100 * (i + 1) // BINS} %" for i in range(BINS)]
    return [
        HistogramBin(label, counts[i], counts[i] / largest)
        for i, label in enumerate([*labels, "all points"])
    ]


def cluster_mistakes(
    results: Sequence[ExerciseResult], rows: Sequence[DashboardRow]
) -> list[MistakeCluster]:
    """Group the results by mistake, the most frequent first."""
    members: dict[tuple[bool, str], list[int]] = {}
    for i, each in enumerate(results):
        if key := _describe_mistake(each):
            members.setdefault(key, []).append(i)
    order = sorted(members, key=lambda key: (-len(members[key]), key))
    return [_make_cluster(key, members[key], results, rows) for key in order]


def _describe_mistake(result: ExerciseResult) -> tuple[bool, str] | None:
    """Return whether the mistake is a known one, and its sentence; None without a failure."""
    if diagnosis := result.record.diagnosis:
        return True, " ".join(sanitise(each.sentence) for each in diagnosis)
    failed = (p.claim for p in result.record.properties if p.status == "failed")
    first = next(failed, None)
    return None if first is None else (False, sanitise_line(first))


def _make_cluster(
    key: tuple[bool, str],
    members: Sequence[int],
    results: Sequence[ExerciseResult],
    rows: Sequence[DashboardRow],
) -> MistakeCluster:
    examples = [p for i in members for p in results[i].record.properties if p.status == "failed"]
    # The shortest code is the smallest case; without code the shortest message is taken.
    best = min(
        examples,
        key=lambda p: (
            not (p.counterexample and p.counterexample.code),
            len(p.counterexample.code or "") if p.counterexample else 0,
            len(p.message),
        ),
        default=None,
    )
    example = best.counterexample if best else None
    named, sentence = key
    return MistakeCluster(
        sentence=sentence if named else f"{UNNAMED_PREFIX}{sentence}",
        named=named,
        students=tuple((rows[i].name or rows[i].student, rows[i].link) for i in members),
        message=sanitise(best.message) if best else "",
        code=sanitise(example.code, 20_000) if example and example.code else "",
    )


def rank_properties(results: Sequence[ExerciseResult]) -> list[HardProperty]:
    """Return the failed properties, those first that the largest share of students fails."""
    broken: Counter[tuple[str, str, str]] = Counter()
    tried: Counter[tuple[str, str, str]] = Counter()
    for each in results:
        for p in each.record.properties:
            key = (each.exercise, p.name, sanitise_line(p.claim))
            tried[key] += p.status != "not_tried"
            broken[key] += p.status not in ("passed", "not_tried")
    order = sorted((k for k in broken if broken[k]), key=lambda k: (-broken[k] / tried[k], k))
    return [HardProperty(key[2], sanitise_line(key[0]), broken[key], tried[key]) for key in order]


def _list_properties(results: Sequence[ExerciseResult]) -> list[tuple[str, str, str]]:
    """Return exercise, name and claim of every property, in the order of grading."""
    keys = (
        (each.exercise, p.name, sanitise_line(p.claim))
        for each in sorted(results, key=lambda s: s.exercise)
        for p in each.record.properties
    )
    return list(dict.fromkeys(keys))


def _make_rows(book: Gradebook, links: Sequence[str]) -> list[DashboardRow]:
    columns = {key[:2]: i for i, key in enumerate(_list_properties(book.results))}
    return [_make_row(each, columns, link) for each, link in zip(book.results, links, strict=True)]


def _make_row(
    each: ExerciseResult, columns: Mapping[tuple[str, str], int], link: str
) -> DashboardRow:
    ends = [" "] * len(columns)
    for p in each.record.properties:
        ends[columns[each.exercise, p.name]] = STATUS_LETTERS.get(p.status, "c")
    return DashboardRow(
        student=sanitise_line(each.student),
        name=sanitise_line(each.name) if each.name != each.student else "",
        exercise=sanitise_line(each.exercise) or "no exercise",
        score=format_points(each.score, each.max_score),
        share=each.score / each.max_score if each.max_score else 0.0,
        status=format_status(each.status),
        mistake=" + ".join(format_status(found.name) for found in each.record.diagnosis),
        attempt=each.attempt,
        late=each.late,
        overridden=each.override is not None,
        seconds=each.record.seconds,
        ends="".join(ends),
        link=link,
    )


def _format_mean(book: Gradebook) -> str:
    shares = [each.score / each.max_score for each in book.results if each.max_score]
    return f"{format_number(round(100 * sum(shares) / len(shares), 1))} %" if shares else "–"


@cache
def _read_script() -> str:
    script = files("grader").joinpath("report/render/templates/dashboard.js")
    return script.read_text(encoding="utf-8")
