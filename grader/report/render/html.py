"""A report as static pages that need no network and no script."""

import re
import unicodedata
from functools import cache

from jinja2 import Environment, PackageLoader, StrictUndefined

from grader.report.pictures.draw import pictures
from grader.report.records import Report, SubmissionRecord
from grader.report.render.sanitise import one_line
from grader.report.render.view import cases, tally, view

SYMBOLS = {
    "passed": "✓",
    "failed": "✗",
    "crashed": "!",
    "timed out": "◷",
    "out of memory": "▣",
    "not tried": "–",
}
LEFT_OUT = "jp-toc-ignore"
"""the class of headings that JupyterLab leaves out of its table of contents"""
NAME = 40
"""how many characters of a page's name come from the submission"""


def index(report: Report) -> str:
    """A page with a table of all submissions, each with a link to its page."""
    links = [page_name(record, i) for i, record in enumerate(report.submissions)]
    return _rendered("index.html.j2", report, rows=_rows(report, links))


def page(submission: SubmissionRecord, report: Report) -> str:
    """The page of one submission of a report."""
    return _rendered("page.html.j2", report, shown=view(submission))


def whole(report: Report) -> str:
    """Everything on one page, for who wants one file."""
    links = [f"#submission-{i + 1}" for i in range(len(report.submissions))]
    return _rendered("whole.html.j2", report, rows=_rows(report, links))


def fragment(submission: SubmissionRecord) -> str:
    """One submission without a page around it, for a notebook to show, whatever its theme.

    Its rules are about nothing else on the page that it is put in, and its headings are kept out
    of the notebook's table of contents.
    """
    shown = environment().get_template("fragment.html.j2").render(shown=view(submission))
    # What a submission wrote is escaped by now: a tag is ours.
    return re.sub(r'<(h[4-6])(?: class="([^"]*)")?>', rf'<\1 class="{LEFT_OUT} \2">', shown)


def page_name(submission: SubmissionRecord, index: int) -> str:
    """The file name of the page of a report's submission number `index`, counted from 0.

    Short plain ASCII, whatever the submission is called; no two of a report are equal.
    """
    stem = re.split(r"[/\\]", submission.file[-1000:])[-1].rpartition(".")[0]
    words = f"{stem[:NAME]} {(submission.name or '')[:NAME]}"
    plain = unicodedata.normalize("NFKD", words).encode("ascii", "ignore").decode().lower()
    slug = re.sub(r"[^a-z0-9]+", "-", plain)[:NAME].strip("-")
    return f"{index + 1:03d}-{slug or 'submission'}.html"


def _rows(report: Report, links: list[str]) -> list[tuple[str, object]]:
    return [(link, view(s)) for link, s in zip(links, report.submissions, strict=True)]


def _rendered(template: str, report: Report, **shown: object) -> str:
    return (
        environment()
        .get_template(template)
        .render(
            version=one_line(report.headcheck),
            sandbox=one_line(report.sandbox.summary) if report.sandbox else "",
            cases=cases(report.seed) if report.seed else "",
            tally=tally([record.status for record in report.submissions]),
            **shown,
        )
    )


@cache
def environment() -> Environment:
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
    environment.globals["pictures"] = pictures
    return environment
