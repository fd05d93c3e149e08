"""A report as static pages that need no network and no script."""

import re
import unicodedata
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from grader.report.pictures.draw import draw_pictures
from grader.report.records import Report, SubmissionRecord
from grader.report.render.sanitise import sanitise_line
from grader.report.render.view import describe_cases, make_view, tally_statuses

SYMBOLS = {
    "passed": "✓",
    "failed": "✗",
    "crashed": "!",
    "timed out": "◷",
    "out of memory": "▣",
    "not tried": "–",
}
TOC_IGNORE_CLASS = "jp-toc-ignore"
"""the class of headings that JupyterLab leaves out of its table of contents"""
MAX_NAME_LENGTH = 40
"""how many characters of a page's name come from the submission"""


def render_index(report: Report) -> str:
    """A page with a table of all submissions, each with a link to its page."""
    links = [make_page_name(record, i) for i, record in enumerate(report.submissions)]
    return _render_template("index.html.j2", report, rows=_make_rows(report, links))


def render_page(submission: SubmissionRecord, report: Report) -> str:
    """The page of one submission of a report."""
    return _render_template("page.html.j2", report, shown=make_view(submission))


def render_all(report: Report) -> str:
    """Everything on one page, for who wants one file."""
    links = [f"#submission-{i + 1}" for i in range(len(report.submissions))]
    return _render_template("whole.html.j2", report, rows=_make_rows(report, links))


def render_fragment(submission: SubmissionRecord) -> str:
    """One submission without a page around it, for a notebook to show, whatever its theme.

    Its rules are about nothing else on the page that it is put in, and its headings are kept out
    of the notebook's table of contents.
    """
    shown = get_environment().get_template("fragment.html.j2").render(shown=make_view(submission))
    # What a submission wrote is escaped by now: a tag is ours.
    return re.sub(r'<(h[4-6])(?: class="([^"]*)")?>', rf'<\1 class="{TOC_IGNORE_CLASS} \2">', shown)


def make_page_name(submission: SubmissionRecord, index: int) -> str:
    """The file name of the page of a report's submission number `index`, counted from 0.

    Short plain ASCII, whatever the submission is called; no two of a report are equal.
    """
    stem = re.split(r"[/\\]", submission.file[-1000:])[-1].rpartition(".")[0]
    words = f"{stem[:MAX_NAME_LENGTH]} {(submission.name or '')[:MAX_NAME_LENGTH]}"
    plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[:MAX_NAME_LENGTH].strip("-")
    return f"{index + 1:03d}-{slug or 'submission'}.html"


def _make_rows(report: Report, links: list[str]) -> list[tuple[str, object]]:
    return [(link, make_view(s)) for link, s in zip(links, report.submissions, strict=True)]


def _render_template(template: str, report: Report, **shown: object) -> str:
    return (
        get_environment()
        .get_template(template)
        .render(
            version=sanitise_line(report.headcheck),
            sandbox=sanitise_line(report.sandbox.summary) if report.sandbox else "",
            cases=describe_cases(report.seed) if report.seed else "",
            tally=tally_statuses([record.status for record in report.submissions]),
            **shown,
        )
    )


@cache
def get_environment() -> Environment:
    """Where the templates are; whatever is put into one is escaped."""
    environment = Environment(
        loader=PackageLoader("grader", "report/render/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["symbols"] = SYMBOLS
    environment.globals["pictures"] = draw_pictures
    return environment
