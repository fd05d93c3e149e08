"""A headless Chromium, and pages that were rendered from real verdicts.

The browser is the system's: Playwright only drives it, and downloads none.
"""

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headcheck import exercises
from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer, write_answer
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import Report, SubmissionRecord, build_report
from headcheck.grader.report.render import html
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from tests.browser.classroom import grade_class, write_class, write_pages

if TYPE_CHECKING:
    from playwright.sync_api import Browser, BrowserContext, Page

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
SLUG = "multi_head_attention"
FOLDER = Path(exercises.__file__).parent / SLUG
HOSTILE = "<img src=x onerror=alert(1)><script>alert(1)</script>\u202e\x1b[31m" + "w" * 3000


@pytest.fixture(scope="session")
def browser() -> "Iterator[Browser]":
    """Chromium without a window."""
    sync_api = pytest.importorskip("playwright.sync_api", reason="Playwright is not installed")
    path = next(filter(None, map(shutil.which, NAMES)), None)
    if path is None:
        pytest.skip(f"there is no browser: none of {', '.join(NAMES)}")
    with sync_api.sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=path)
        yield started
        started.close()


@dataclass(frozen=True)
class OpenedPage:
    """A page that a file was opened on, and what went wrong with it."""

    page: "Page"
    errors: list[str]
    requested: list[str]
    """what it wanted from elsewhere"""


class Reader:
    """Opens files as somebody does who has no network."""

    def __init__(self, context: "BrowserContext") -> None:
        self.context = context

    def open(self, path: Path) -> OpenedPage:
        page = self.context.new_page()
        shown = OpenedPage(page, [], [])
        page.on(
            "console",
            lambda said: shown.errors.append(said.text) if said.type != "log" else None,
        )
        page.on("pageerror", lambda error: shown.errors.append(str(error)))
        page.on("dialog", lambda dialog: shown.errors.append(f"dialog {dialog.message}"))
        own = path.as_uri()
        page.on(
            "request",
            lambda asked: shown.requested.append(asked.url) if asked.url != own else None,
        )
        page.goto(own)
        return shown


@pytest.fixture
def reader(browser: "Browser") -> Iterator[Reader]:
    """A profile of its own, offline."""
    context = browser.new_context(offline=True, viewport={"width": 900, "height": 1000})
    yield Reader(context)
    context.close()


# -------------------------------------------------------------------------------------- pages


def grade_trusted(path: Path) -> SubmissionRecord:
    """The record of a trusted file."""
    [handed_in] = find_submissions([str(path)])
    [record] = grade_file_or_raise(
        UnconfinedSandbox("trusted"), handed_in, Settings(exercise=BY_SLUG[SLUG])
    )
    return replace(record, file=f"class/{path.name}")


@pytest.fixture(scope="session")
def report(tmp_path_factory: pytest.TempPathFactory) -> Report:
    """One of each: wrong in the split, wrong in the mask, right, no Python, and full of tricks."""
    broken = tmp_path_factory.mktemp("class") / "broken.py"
    broken.write_text("class MultiHeadAttention(\n    pass\n")
    wrong = [
        grade_trusted(write_answer(find_answer(BY_SLUG[SLUG], name), broken.parent))
        for name in ("split_without_transpose", "mask_after_softmax")
    ]
    hostile = replace(
        wrong[0],
        file=HOSTILE,
        name=HOSTILE,
        diagnosis=tuple(replace(d, sentence=HOSTILE) for d in wrong[0].diagnosis),
        properties=tuple(replace(p, message=HOSTILE, claim=HOSTILE) for p in wrong[0].properties),
        source=tuple(replace(e, text=HOSTILE) for e in wrong[0].source),
    )
    others = grade_trusted(FOLDER / "solution.py"), grade_trusted(broken)
    return build_report([*wrong, *others, hostile])


PAGES = ("index", "split", "mask", "right", "broken", "hostile", "whole")


@pytest.fixture(scope="session")
def pages(report: Report, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The files of the report, by what is on them."""
    folder = tmp_path_factory.mktemp("report")
    written = [
        html.render_index(report),
        *(html.render_page(s, report) for s in report.submissions),
    ]
    for name, text in zip(PAGES, [*written, html.render_all(report)], strict=True):
        (folder / f"{name}.html").write_text(text, encoding="utf-8")
    return {name: folder / f"{name}.html" for name in PAGES}


@pytest.fixture(scope="session")
def class_pages(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of a class's report, with a dashboard in a folder of its own."""
    folder = tmp_path_factory.mktemp("course")
    write_class(folder / "class")
    return write_pages(grade_class(folder / "class"), folder / "report").parent
