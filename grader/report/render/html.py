"""A report as static HTML pages that need no network.

Everything can be read without a script. The index has a script that sorts and filters its rows; the
page's policy allows only this script, by its digest.
"""

import base64
import hashlib
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cache
from importlib.resources import files
from posixpath import commonpath

from jinja2 import Environment, PackageLoader, StrictUndefined
from markupsafe import Markup

from headcheck.grader.report.collation import collate, fold_accents
from headcheck.grader.report.pictures.draw import draw_pictures
from headcheck.grader.report.records import Report, SubmissionRecord
from headcheck.grader.report.render.circumstances import describe_cases
from headcheck.grader.report.render.diagnosis_view import name_columns
from headcheck.grader.report.render.heading import NO_OCCASION, Occasion, make_heading
from headcheck.grader.report.render.highlight import (
    DARK,
    LIGHT,
    highlight,
    highlight_lines,
    write_colours,
)
from headcheck.grader.report.render.overview import ClassResult, make_overview
from headcheck.grader.report.render.sanitise import sanitise_line
from headcheck.grader.report.render.view import describe_broken, make_view, tally_statuses
from headcheck.grader.report.render.views import SubmissionView, count_failures

SYMBOLS = {
    "passed": "✓",
    "failed": "✗",
    "crashed": "!",
    "repaired": "±",
    "timed out": "◷",
    "out of memory": "▣",
    "not tried": "–",
    "not asked": "…",
    "not judged": "?",
}
TOC_IGNORE_CLASS = "jp-toc-ignore"
"""the CSS class that makes JupyterLab leave headings out of its table of contents"""
MAX_NAME_LENGTH = 40
"""the most characters of a page's file name that come from the submission"""


@dataclass(frozen=True, slots=True)
class Neighbour:
    """The submission before or after another in the index: its name, and its page."""

    label: str
    link: str


@dataclass(frozen=True, slots=True)
class MarkView:
    """What people marked by one criterion, as text."""

    name: str
    about: str
    points: str
    comment: str


@dataclass(frozen=True, slots=True)
class DecisionsView:
    """What people marked, decided and said about a submission, and its score with that."""

    score: str
    explanations: tuple[str, ...]
    """how the score follows from the checks"""
    criteria: tuple[MarkView, ...]
    comments: tuple[str, ...]


def render_index(report: Report, occasion: Occasion = NO_OCCASION) -> str:
    """Render a page on all submissions together, with a link to the page of each."""
    labels = label_submissions(report.submissions)
    links = [make_page_name(record, i) for i, record in enumerate(report.submissions)]
    order = _sort_indices(labels)
    entries = [
        ClassResult(record, label, link, record.score, record.max_score)
        for record, label, link in zip(report.submissions, labels, links, strict=True)
    ]
    rows = _make_rows(report, links)
    return _render_template(
        "index.html.j2",
        report,
        heading=make_heading([record.exercise for record in report.submissions], occasion),
        rows=[rows[i] for i in order],
        overview=make_overview([entries[i] for i in order]),
    )


def render_pages(
    report: Report,
    labels: Sequence[str] = (),
    occasion: Occasion = NO_OCCASION,
    decisions: Sequence[DecisionsView | None] = (),
) -> dict[str, str]:
    """Render the page of each submission, by file name, with links to its neighbours.

    `labels` are the names of the submissions; by default these are their files. `decisions` are
    what people marked, decided and said about each of them.
    """
    labels = labels or label_submissions(report.submissions)
    decisions = decisions or [None] * len(labels)
    names = [make_page_name(record, i) for i, record in enumerate(report.submissions)]
    order = _sort_indices(labels)
    line = [None, *(Neighbour(sanitise_line(labels[i]), names[i]) for i in order), None]
    beside = {i: (line[at], line[at + 2]) for at, i in enumerate(order)}
    return {
        name: render_page(record, report, beside[i], occasion, decisions[i])
        for i, (name, record) in enumerate(zip(names, report.submissions, strict=True))
    }


def render_page(
    submission: SubmissionRecord,
    report: Report,
    beside: tuple[Neighbour | None, Neighbour | None] = (None, None),
    occasion: Occasion = NO_OCCASION,
    decisions: DecisionsView | None = None,
) -> str:
    """Render the page of one submission of a report, between the pages beside it."""
    shown = make_view(submission)
    return _render_template(
        "page.html.j2",
        report,
        shown=shown if decisions is None else replace(shown, score=decisions.score),
        previous=beside[0],
        next=beside[1],
        heading=make_heading([submission.exercise], occasion),
        decisions=decisions,
    )


def label_submissions(submissions: Sequence[SubmissionRecord]) -> list[str]:
    """Return labels that distinguish the submissions: their paths without the common part."""
    paths = [record.file for record in submissions]
    folder = _find_common_folder(paths)
    short = [path[len(folder) :] for path in paths]
    if len({path.rpartition("/")[2] for path in short}) == 1 and all("/" in p for p in short):
        short = [path.rpartition("/")[0] for path in short]
    several = Counter(short)
    return [
        f"{label} {record.name}" if several[label] > 1 and record.name else label
        for label, record in zip(short, submissions, strict=True)
    ]


def _find_common_folder(paths: Sequence[str]) -> str:
    """Return the folder that all files lie in, with its slash; empty if there is none."""
    folders = [path.rpartition("/")[0] for path in paths]
    if not folders or not all(folders) or len({path.startswith("/") for path in paths}) > 1:
        return ""
    common = commonpath(folders)
    return f"{common}/" if common and all(p.startswith(f"{common}/") for p in paths) else ""


def _sort_indices(labels: Sequence[str]) -> list[int]:
    return sorted(range(len(labels)), key=lambda i: collate(labels[i]))


def render_all(report: Report, occasion: Occasion = NO_OCCASION, said: Sequence[str] = ()) -> str:
    """Render everything on one page, as a single file, below the sentences in `said`."""
    links = [f"#submission-{i + 1}" for i in range(len(report.submissions))]
    heading = make_heading([record.exercise for record in report.submissions], occasion)
    rows = _make_rows(report, links)
    return _render_template("whole.html.j2", report, heading=heading, said=said, rows=rows)


def render_fragment(submission: SubmissionRecord) -> str:
    """Render one submission without a page around it, for a notebook with any theme.

    Its style rules apply to nothing else on the page, and its headings are kept out of the
    notebook's table of contents.
    """
    return _render_fragment("fragment.html.j2", shown=make_view(submission))


def render_feedback(
    about: str, said: Sequence[str], submissions: Sequence[SubmissionRecord]
) -> str:
    """Render what stands below a cell of a notebook that was handed in.

    It can be read without its styles and has no pictures, because Jupyter removes both from a
    notebook that it does not trust. The code is left out, because the notebook has it.
    """
    views = [make_view(_leave_out_pictures(record)) for record in submissions]
    return _render_fragment("feedback.html.j2", about=about, said=said, views=views)


def _leave_out_pictures(record: SubmissionRecord) -> SubmissionRecord:
    properties = tuple(replace(each, evidence=None) for each in record.properties)
    return replace(record, properties=properties, source=())


def _render_fragment(name: str, **variables: object) -> str:
    shown = get_environment().get_template(name).render(**variables)
    # Text from the submission is escaped by now, so all tags are from the template.
    return re.sub(r'<(h[4-6])(?: class="([^"]*)")?>', rf'<\1 class="{TOC_IGNORE_CLASS} \2">', shown)


def make_page_name(submission: SubmissionRecord, index: int) -> str:
    """Return the file name of the page of submission number `index`, counted from 0.

    The file name is short, plain ASCII, whatever the submission is called, and unique in the
    report.
    """
    stem = re.split(r"[/\\]", submission.file[-1000:])[-1].rpartition(".")[0]
    words = f"{stem[:MAX_NAME_LENGTH]} {(submission.name or '')[:MAX_NAME_LENGTH]}"
    plain = fold_accents(words).encode("ascii", "ignore").decode()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[:MAX_NAME_LENGTH].strip("-")
    return f"{index + 1:03d}-{slug or 'submission'}.html"


def _make_rows(report: Report, links: list[str]) -> list[tuple[str, str, SubmissionView]]:
    labels = map(sanitise_line, label_submissions(report.submissions))
    views = (make_view(record) for record in report.submissions)
    return list(zip(links, labels, views, strict=True))


def _render_template(name: str, report: Report, **variables: object) -> str:
    template = get_environment().get_template(name)
    return template.render(
        version=sanitise_line(report.headcheck),
        sandbox=sanitise_line(report.sandbox.summary) if report.sandbox else "",
        cases=describe_cases(report.seed) if report.seed else "",
        tally=tally_statuses([record.status for record in report.submissions]),
        **variables,
    )


@cache
def get_environment() -> Environment:
    """Return the environment of the templates, which escapes everything put into them."""
    environment = Environment(
        loader=PackageLoader("headcheck.grader", "report/render/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    script = files("headcheck.grader").joinpath("report/render/templates/index.js")
    code = script.read_text("utf-8")
    environment.globals |= {
        "symbols": SYMBOLS,
        "pictures": draw_pictures,
        "name_columns": name_columns,
        "light": write_colours(LIGHT),
        "dark": write_colours(DARK),
        "highlight": highlight,
        "highlight_lines": highlight_lines,
        "describe_broken": describe_broken,
        "count_failures": count_failures,
        "script": Markup(code),
        "digest": base64.b64encode(hashlib.sha256(code.encode()).digest()).decode(),
    }
    return environment
