"""A report as static HTML pages that need no network and no script."""

import re
import unicodedata
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from grader.report.pictures.draw import draw_pictures
from grader.report.records import Report, SubmissionRecord
from grader.report.render.sanitise import sanitise_line
from grader.report.render.view import (
    count_failures,
    describe_broken,
    describe_cases,
    make_view,
    tally_statuses,
)

SYMBOLS = {
    "passed": "✓",
    "failed": "✗",
    "crashed": "!",
    "timed out": "◷",
    "out of memory": "▣",
    "not tried": "–",
}
TOC_IGNORE_CLASS = "jp-toc-ignore"
"""the class by which JupyterLab leaves headings out of its table of contents"""
MAX_NAME_LENGTH = 40
"""how many characters of a page's file name come from the submission"""


def render_index(report: Report) -> str:
    """Render a page with a table of all submissions, each with a link to its page."""
    links = [make_page_name(record, i) for i, record in enumerate(report.submissions)]
    return _render_template("index.html.j2", report, rows=_make_rows(report, links))


def render_page(submission: SubmissionRecord, report: Report) -> str:
    """Render the page of one submission of a report."""
    return _render_template("page.html.j2", report, shown=make_view(submission))


def render_all(report: Report) -> str:
    """Render everything on one page, as a single file."""
    links = [f"#submission-{i + 1}" for i in range(len(report.submissions))]
    return _render_template("whole.html.j2", report, rows=_make_rows(report, links))


def render_fragment(submission: SubmissionRecord) -> str:
    """Render one submission without a page around it, for a notebook with any theme.

    Its style rules apply to nothing else on the page, and its headings are kept out of the
    notebook's table of contents.
    """
    shown = get_environment().get_template("fragment.html.j2").render(shown=make_view(submission))
    # Text from the submission is escaped by now, so all tags are from the template.
    return re.sub(r'<(h[4-6])(?: class="([^"]*)")?>', rf'<\1 class="{TOC_IGNORE_CLASS} \2">', shown)


def make_page_name(submission: SubmissionRecord, index: int) -> str:
    """Return the file name of the page of submission number `index`, counted from 0.

    It is short plain ASCII, whatever the submission is called, and unique in the report.
    """
    stem = re.split(r"[/\\]", submission.file[-1000:])[-1].rpartition(".")[0]
    words = f"{stem[:MAX_NAME_LENGTH]} {(submission.name or '')[:MAX_NAME_LENGTH]}"
    plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[:MAX_NAME_LENGTH].strip("-")
    return f"{index + 1:03d}-{slug or 'submission'}.html"


def _make_rows(report: Report, links: list[str]) -> list[tuple[str, object]]:
    return [(link, make_view(s)) for link, s in zip(links, report.submissions, strict=True)]


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
        loader=PackageLoader("grader", "report/render/templates"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
    )
    environment.globals["symbols"] = SYMBOLS
    environment.globals["pictures"] = draw_pictures
    environment.globals["describe_broken"] = describe_broken
    environment.globals["count_failures"] = count_failures
    return environment
