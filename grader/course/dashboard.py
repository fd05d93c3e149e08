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

from grader.course.export.gradebook import Gradebook, number
from grader.course.results import Standing
from grader.report.records import Report
from grader.report.render.html import environment, page, page_name
from grader.report.render.sanitise import harmless, one_line
from grader.report.render.view import points, tally, word

BINS = 10
LETTERS = {"passed": "p", "failed": "f", "not_tried": "n"}
"""a claim's end, as one letter of a line of the matrix; what crashed, timed out and so on is c"""
ENDED = ("crashed", "timed_out", "out_of_memory")
UNNAMED = "No known mistake explains it. The first claim that does not hold: "


@dataclass(frozen=True, slots=True)
class Row:
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
class Cluster:
    """Students who made the same mistake, and the smallest example of it."""

    sentence: str
    named: bool
    students: tuple[tuple[str, str], ...]
    """what they are called, and the link to their report"""
    message: str
    code: str


@dataclass(frozen=True, slots=True)
class Hard:
    """A claim, and how many of those who tried do not keep it."""

    claim: str
    exercise: str
    broken: int
    tried: int


@dataclass(frozen=True, slots=True)
class Bin:
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
    rows = _rows(book, links or [""] * len(book.standings))
    script = _script()
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return (
        environment()
        .get_template("dashboard.html.j2")
        .render(
            version=one_line(version),
            sandbox="",
            run=one_line(book.run),
            similar=similar,
            tally=tally([each.status for each in book.standings]),
            students=len(book.students),
            mean=_mean(book),
            rows=rows,
            bins=bins(book.standings),
            clusters=clusters(book.standings, rows),
            hard=hardest(book.standings),
            ended=[row for row in rows if row.status in map(word, ENDED)],
            claims=[f"{exercise}: {claim}" for exercise, _, claim in _claims(book.standings)],
            script=Markup(script),
            digest=digest,
        )
    )


def pages(book: Gradebook, version: str) -> dict[str, str]:
    """The report of each standing under the name of its page."""
    records = [each.record for each in book.standings]
    report = Report(1, version, tuple(records))
    return {page_name(r, i): page(r, report) for i, r in enumerate(records)}


def anonymous(book: Gradebook, salt: str) -> Gradebook:
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
        for each in book.standings
    ]
    hidden.sort(key=lambda each: (each.student, each.exercise))
    return Gradebook(book.run, tuple(hidden))


def bins(standings: Sequence[Standing]) -> list[Bin]:
    """The distribution of scores, as shares of the points that there are; full ones apart."""
    counts = Counter(
        min(int(each.score / each.max_score * BINS), BINS) for each in standings if each.max_score
    )
    most = max(counts.values(), default=1)
    labels = [f"{100 * i // BINS}–{100 * (i + 1) // BINS} %" for i in range(BINS)]
    return [
        Bin(label, counts[i], counts[i] / most) for i, label in enumerate([*labels, "all points"])
    ]


def clusters(standings: Sequence[Standing], rows: Sequence[Row]) -> list[Cluster]:
    """Who made the same mistake, the most frequent first."""
    found: dict[tuple[bool, str], list[int]] = {}
    for i, each in enumerate(standings):
        if key := _mistake(each):
            found.setdefault(key, []).append(i)
    order = sorted(found, key=lambda key: (-len(found[key]), key))
    return [_cluster(key, found[key], standings, rows) for key in order]


def _mistake(standing: Standing) -> tuple[bool, str] | None:
    """Whether a mistake has a name, and its sentence; None where nothing is wrong or judged."""
    named = standing.record.diagnosis
    if named:
        return True, " ".join(harmless(each.sentence) for each in named)
    failed = (p.claim for p in standing.record.properties if p.status == "failed")
    first = next(failed, None)
    return None if first is None else (False, one_line(first))


def _cluster(
    key: tuple[bool, str],
    members: Sequence[int],
    standings: Sequence[Standing],
    rows: Sequence[Row],
) -> Cluster:
    examples = [p for i in members for p in standings[i].record.properties if p.status == "failed"]
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
    return Cluster(
        sentence=key[1] if key[0] else f"{UNNAMED}{key[1]}",
        named=key[0],
        students=tuple((rows[i].name or rows[i].student, rows[i].link) for i in members),
        message=harmless(best.message) if best else "",
        code=harmless(shown.code, 20_000) if shown and shown.code else "",
    )


def hardest(standings: Sequence[Standing]) -> list[Hard]:
    """The claims that somebody does not keep, those first that most who were tried do not."""
    broken: Counter[tuple[str, str, str]] = Counter()
    tried: Counter[tuple[str, str, str]] = Counter()
    for each in standings:
        for claim in each.record.properties:
            key = (each.exercise, claim.name, one_line(claim.claim))
            tried[key] += claim.status != "not_tried"
            broken[key] += claim.status not in ("passed", "not_tried")
    order = sorted((k for k in broken if broken[k]), key=lambda k: (-broken[k] / tried[k], k))
    return [Hard(key[2], one_line(key[0]), broken[key], tried[key]) for key in order]


def _claims(standings: Sequence[Standing]) -> list[tuple[str, str, str]]:
    """Every claim of every exercise, in the order of judging."""
    found = {
        (each.exercise, claim.name, one_line(claim.claim)): None
        for each in sorted(standings, key=lambda s: s.exercise)
        for claim in each.record.properties
    }
    return list(found)


def _rows(book: Gradebook, links: Sequence[str]) -> list[Row]:
    columns = {key[:2]: i for i, key in enumerate(_claims(book.standings))}
    return [_row(each, columns, link) for each, link in zip(book.standings, links, strict=True)]


def _row(each: Standing, columns: Mapping[tuple[str, str], int], link: str) -> Row:
    ends = [" "] * len(columns)
    for claim in each.record.properties:
        ends[columns[each.exercise, claim.name]] = LETTERS.get(claim.status, "c")
    named = each.record.diagnosis
    return Row(
        student=one_line(each.student),
        name=one_line(each.name) if each.name != each.student else "",
        exercise=one_line(each.exercise) or "no exercise",
        score=points(each.score, each.max_score),
        share=each.score / each.max_score if each.max_score else 0.0,
        status=word(each.status),
        mistake=" + ".join(word(found.name) for found in named),
        attempt=each.attempt,
        late=each.late,
        overridden=each.override is not None,
        seconds=each.record.seconds,
        ends="".join(ends),
        link=link,
    )


def _mean(book: Gradebook) -> str:
    shares = [each.score / each.max_score for each in book.standings if each.max_score]
    return f"{number(round(100 * sum(shares) / len(shares), 1))} %" if shares else "–"


@cache
def _script() -> str:
    return (
        files("grader").joinpath("report/render/templates/dashboard.js").read_text(encoding="utf-8")
    )
