"""A course on one page that needs no network: who has what, which mistakes, which claims are hard.

Pure functions. What is shown is counted here; the script on the page only sorts, filters and
draws what is there, and is allowed by its digest alone. Whatever a submission wrote is escaped and
made harmless before.
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
"""a claim's end, as one letter of a line of the matrix; what crashed, timed out and so on is c"""
ABNORMAL_STATUSES = ("crashed", "timed_out", "out_of_memory")
UNNAMED_PREFIX = "No known mistake explains it. The first claim that does not hold: "


@dataclass(frozen=True, slots=True)
class DashboardRow:
    """One student's result in one exercise, as it is shown."""

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
    """a letter for every claim of the page, in its order; a blank where it does not apply"""
    link: str


@dataclass(frozen=True, slots=True)
class MistakeCluster:
    """Students who made the same mistake, and the smallest example of it."""

    sentence: str
    named: bool
    students: tuple[tuple[str, str], ...]
    """what they are called, and the link to their report"""
    message: str
    code: str


@dataclass(frozen=True, slots=True)
class HardProperty:
    """A claim, and how many of those who tried do not keep it."""

    claim: str
    exercise: str
    broken: int
    tried: int


@dataclass(frozen=True, slots=True)
class HistogramBin:
    """How many results lie between two shares of the points."""

    label: str
    count: int
    share: float
    """of the fullest bin"""


def render(
    book: Gradebook, version: str, links: Sequence[str] = (), *, similar: bool = False
) -> str:
    """The page; links lead to the report of each standing, in order, if there are any.

    `similar` says that there is a page on who wrote alike beside it.
    """
    rows = _make_rows(book, links or [""] * len(book.results))
    script = _read_script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        get_environment()
        .get_template("dashboard.html.j2")
        .render(
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
            claims=[
                f"{exercise}: {claim}" for exercise, _, claim in _list_properties(book.results)
            ],
            script=Markup(script),
            digest=digest,
        )
    )


def render_pages(book: Gradebook, version: str) -> dict[str, str]:
    """The report of each standing under the name of its page."""
    records = [each.record for each in book.results]
    report = Report(1, version, tuple(records))
    return {make_page_name(r, i): render_page(r, report) for i, r in enumerate(records)}


def anonymise(book: Gradebook, salt: str) -> Gradebook:
    """The same results of nobody: numbers in an order that only the salt decides.

    Messages and examples stay, and may say what a student called a class.
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
    """The distribution of scores, as shares of the points that there are; full ones apart."""
    counts = Counter(
        min(int(each.score / each.max_score * BINS), BINS) for each in results if each.max_score
    )
    most = max(counts.values(), default=1)
    labels = [f"{100 * i // BINS}–{100 * (i + 1) // BINS} %" for i in range(BINS)]
    return [
        HistogramBin(label, counts[i], counts[i] / most)
        for i, label in enumerate([*labels, "all points"])
    ]


def cluster_mistakes(
    results: Sequence[ExerciseResult], rows: Sequence[DashboardRow]
) -> list[MistakeCluster]:
    """Who made the same mistake, the most frequent first."""
    found: dict[tuple[bool, str], list[int]] = {}
    for i, each in enumerate(results):
        if key := _describe_mistake(each):
            found.setdefault(key, []).append(i)
    order = sorted(found, key=lambda key: (-len(found[key]), key))
    return [_make_cluster(key, found[key], results, rows) for key in order]


def _describe_mistake(result: ExerciseResult) -> tuple[bool, str] | None:
    """Whether a mistake has a name, and its sentence; None where nothing is wrong or judged."""
    named = result.record.diagnosis
    if named:
        return True, " ".join(sanitise(each.sentence) for each in named)
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
    # The shortest code is the smallest case; without code the shortest message has to do.
    best = min(
        examples,
        key=lambda p: (
            not (p.counterexample and p.counterexample.code),
            len(p.counterexample.code or "") if p.counterexample else 0,
            len(p.message),
        ),
        default=None,
    )
    shown = best.counterexample if best else None
    return MistakeCluster(
        sentence=key[1] if key[0] else f"{UNNAMED_PREFIX}{key[1]}",
        named=key[0],
        students=tuple((rows[i].name or rows[i].student, rows[i].link) for i in members),
        message=sanitise(best.message) if best else "",
        code=sanitise(shown.code, 20_000) if shown and shown.code else "",
    )


def rank_properties(results: Sequence[ExerciseResult]) -> list[HardProperty]:
    """The claims that somebody does not keep, those first that most who were tried do not."""
    broken: Counter[tuple[str, str, str]] = Counter()
    tried: Counter[tuple[str, str, str]] = Counter()
    for each in results:
        for claim in each.record.properties:
            key = (each.exercise, claim.name, sanitise_line(claim.claim))
            tried[key] += claim.status != "not_tried"
            broken[key] += claim.status not in ("passed", "not_tried")
    order = sorted((k for k in broken if broken[k]), key=lambda k: (-broken[k] / tried[k], k))
    return [HardProperty(key[2], sanitise_line(key[0]), broken[key], tried[key]) for key in order]


def _list_properties(results: Sequence[ExerciseResult]) -> list[tuple[str, str, str]]:
    """Every claim of every exercise, in the order of judging."""
    found = {
        (each.exercise, claim.name, sanitise_line(claim.claim)): None
        for each in sorted(results, key=lambda s: s.exercise)
        for claim in each.record.properties
    }
    return list(found)


def _make_rows(book: Gradebook, links: Sequence[str]) -> list[DashboardRow]:
    columns = {key[:2]: i for i, key in enumerate(_list_properties(book.results))}
    return [_make_row(each, columns, link) for each, link in zip(book.results, links, strict=True)]


def _make_row(
    each: ExerciseResult, columns: Mapping[tuple[str, str], int], link: str
) -> DashboardRow:
    ends = [" "] * len(columns)
    for claim in each.record.properties:
        ends[columns[each.exercise, claim.name]] = STATUS_LETTERS.get(claim.status, "c")
    named = each.record.diagnosis
    return DashboardRow(
        student=sanitise_line(each.student),
        name=sanitise_line(each.name) if each.name != each.student else "",
        exercise=sanitise_line(each.exercise) or "no exercise",
        score=format_points(each.score, each.max_score),
        share=each.score / each.max_score if each.max_score else 0.0,
        status=format_status(each.status),
        mistake=" + ".join(format_status(found.name) for found in named),
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
    return (
        files("grader").joinpath("report/render/templates/dashboard.js").read_text(encoding="utf-8")
    )
