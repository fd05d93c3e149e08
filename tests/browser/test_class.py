"""The index of a class and the dashboard in a real browser: narrow, sorted, filtered."""

import base64
import os
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pytest

from headcheck.grader.course import dashboard
from headcheck.grader.course.export import Gradebook
from headcheck.grader.course.marks import MarkedCriterion
from headcheck.grader.report.records import from_json
from headcheck.grader.report.rubric import Criterion
from tests.browser.classroom import EDITS, UNTOUCHED, make_gradebook
from tests.browser.test_report import MOST, violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

    from tests.browser.conftest import Reader

PAGES = ("index.html", "dashboard/index.html")
NAMES = [*EDITS, UNTOUCHED]
"""all students, in the order of names"""
TALLEST = 8000
"""CSS pixels of the longest page in the narrowest window"""
CUT = """() => Array.from(document.querySelectorAll('body *'))
  .filter((each) => each.checkVisibility() && !each.closest('.tall, svg, template'))
  .filter((each) => each.getBoundingClientRect().right > document.documentElement.clientWidth + 1)
  .map((each) => each.outerHTML.slice(0, 80))"""


def find_page(folder: Path, student: str) -> Path:
    """The page of a student in the report."""
    return next(p for p in folder.glob("[0-9]*.html") if f"<bdi>{student}/</bdi>" in p.read_text())


def list_students(page: "Page") -> list[str]:
    """The students of the table that are to be seen, in its order."""
    rows = page.locator("#table tbody tr:visible")
    column = "th" if rows.first.locator("td").count() < 5 else "td >> nth=0"
    return [row.locator(column).inner_text().split("/")[0].strip() for row in rows.all()]


@pytest.mark.parametrize("name", PAGES)
def test_page_of_a_class_is_whole_and_quiet(reader: "Reader", class_pages: Path, name: str) -> None:
    shown = reader.open(class_pages / name)
    assert (shown.errors, shown.requested) == ([], [])
    for scheme in ("light", "dark"):
        shown.page.emulate_media(color_scheme=scheme)
        assert violations(shown) == []


@pytest.mark.parametrize("width", [320, 360, 800, 1400])
@pytest.mark.parametrize("name", [*PAGES, "Ángel Núñez", "Łukasz Nowak"])
def test_nothing_is_cut_at_any_width(
    reader: "Reader", class_pages: Path, name: str, width: int
) -> None:
    path = class_pages / name if name in PAGES else find_page(class_pages, name)
    page = reader.open(path).page
    page.set_viewport_size({"width": width, "height": 900})
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    assert page.evaluate("document.documentElement.scrollHeight") <= TALLEST
    assert page.evaluate(CUT) == []


@pytest.mark.parametrize("name", PAGES)
def test_rows_are_sorted_and_filtered_where_names_have_accents(
    reader: "Reader", class_pages: Path, name: str
) -> None:
    page = reader.open(class_pages / name).page
    assert list_students(page) == NAMES
    head = page.get_by_role("button", name="Submission" if name == "index.html" else "Name")
    head.click()
    assert list_students(page) == NAMES
    head.click()
    assert list_students(page) == NAMES[::-1]
    assert page.locator("#matrix tbody th").first.inner_text() == UNTOUCHED
    page.get_by_role("button", name="Score").click()
    page.get_by_role("button", name="Score").click()
    assert list_students(page)[0] == "Ada Lovelace"
    page.get_by_label("Filter").fill("nunez")
    assert list_students(page) == ["Ángel Núñez"]
    assert page.locator("#matrix tbody th:visible").all_inner_texts() == ["Ángel Núñez"]
    page.get_by_label("Filter").fill("")
    page.get_by_label("Status").select_option("crashed")
    assert set(list_students(page)) == {"Łukasz Nowak", "Øystein Sørensen"}
    assert page.locator("#count").inner_text() == f"2 of {len(NAMES)}"


@pytest.mark.parametrize("name", PAGES)
def test_without_a_script_all_of_it_can_be_read(
    browser: "Browser", class_pages: Path, name: str
) -> None:
    context = browser.new_context(offline=True, java_script_enabled=False)
    page = context.new_page()
    page.goto((class_pages / name).as_uri())
    assert list_students(page) == NAMES
    assert page.locator("#matrix tbody th").all_inner_texts() == NAMES
    assert page.locator("button:visible, input:visible, select:visible").count() == 0
    context.close()


def test_pages_lead_from_one_student_to_the_next(reader: "Reader", class_pages: Path) -> None:
    page = reader.open(class_pages / "index.html").page
    page.locator("#table tbody a").first.click()
    seen = []
    while True:
        seen.append(page.locator(".headline p bdi").first.inner_text().rstrip("/"))
        following = page.locator("nav a[rel=next]")
        if not following.count():
            break
        following.click()
    assert seen == NAMES
    assert page.locator("nav a[rel=prev]").inner_text().strip("←\n ") == NAMES[-2]


def test_a_long_marked_line_is_seen_to_its_end(reader: "Reader", class_pages: Path) -> None:
    page = reader.open(find_page(class_pages, "Ángel Núñez")).page
    page.set_viewport_size({"width": 360, "height": 900})
    code = page.locator(".code")
    assert code.evaluate("each => each.scrollWidth <= each.clientWidth")
    assert any(text.endswith("self.W_key.weight.shape[1] ** 0.5")
               for text in page.locator("mark").all_inner_texts())  # fmt: skip


@pytest.mark.parametrize(
    ("name", "page", "scheme", "width", "height"),
    [
        ("class", "index.html", "light", 900, 1000),
        ("dashboard-dark", "dashboard/index.html", "dark", 900, 1000),
        ("dashboard-matrix", "dashboard/index.html", "light", 900, 0),
    ],
)
def test_screenshots_of_a_class_for_the_docs(
    reader: "Reader",
    class_pages: Path,
    tmp_path: Path,
    name: str,
    page: str,
    scheme: Literal["light", "dark"],
    width: int,
    height: int,
) -> None:
    """Kept in the folder that HEADCHECK_SCREENSHOTS names; without a height it is the matrix."""
    shown = reader.open(class_pages / page).page
    shown.emulate_media(color_scheme=scheme)
    shown.set_viewport_size({"width": width, "height": height or 1000})
    path = Path(os.environ.get("HEADCHECK_SCREENSHOTS", tmp_path)) / f"{name}.png"
    if height:
        shown.screenshot(path=path)
    else:
        shown.get_by_role("region", name="Matrix").screenshot(path=path)
    assert 0 < path.stat().st_size < MOST


WIDTHS = (360, 800, 1400)
SHEET = """<style>
  body {{ margin: 0; padding: 8px; background: #888; width: 1320px; }}
  div {{ display: flex; gap: 8px; margin-bottom: 8px; align-items: flex-start; }}
</style>{rows}"""


@pytest.mark.parametrize(
    ("name", "page"),
    [
        ("widths-page", "Chloë Ünal"),
        ("widths-report", "index.html"),
        ("widths-dashboard", "dashboard/index.html"),
    ],
)
def test_sheets_of_all_widths_for_the_docs(
    reader: "Reader", class_pages: Path, tmp_path: Path, name: str, page: str
) -> None:
    """Windows of three widths, at half their size: a row in light, a row in dark."""
    path = class_pages / page if page in PAGES else find_page(class_pages, page)
    shown = reader.open(path).page
    rows = ""
    for scheme in ("light", "dark"):
        shown.emulate_media(color_scheme=scheme)
        rows += f"<div>{''.join(take_screen(shown, width) for width in WIDTHS)}</div>"
    sheet = reader.context.new_page()
    sheet.set_viewport_size({"width": 1336, "height": 800})
    sheet.set_content(SHEET.format(rows=rows))
    kept = Path(os.environ.get("HEADCHECK_SCREENSHOTS", tmp_path)) / f"{name}.png"
    sheet.screenshot(path=kept, full_page=True)
    assert 0 < kept.stat().st_size < 3 * MOST


def take_screen(page: "Page", width: int) -> str:
    """An image element of what a window of this width shows, at half its size."""
    page.set_viewport_size({"width": width, "height": 1100})
    taken = base64.b64encode(page.screenshot()).decode()
    return f'<img width="{width // 2}" src="data:image/png;base64,{taken}">'


# The words in tables that go on in another line.
BROKEN = """() => Array.from(document.querySelectorAll('th, td')).flatMap((cell) => {
  const walk = document.createTreeWalker(cell, NodeFilter.SHOW_TEXT);
  const broken = [];
  for (let node = walk.nextNode(); node; node = walk.nextNode())
    for (const word of node.data.matchAll(/\\S+/g)) {
      const range = document.createRange();
      range.setStart(node, word.index);
      range.setEnd(node, word.index + word[0].length);
      const lines = new Set(Array.from(range.getClientRects(), (each) => Math.round(each.top)));
      if (lines.size > 1) broken.push(word[0]);
    }
  return broken;
})"""


CRITERIA = ("documentation_and_style", "measurements", "reproducibility", "presentation")


def test_no_word_is_broken_on_a_wide_page(
    reader: "Reader", class_pages: Path, tmp_path: Path
) -> None:
    report = from_json((class_pages / "report.json").read_text(encoding="utf-8"))
    marks = tuple(MarkedCriterion(Criterion(name, 4.0)) for name in CRITERIA)
    results = tuple(
        replace(each, name="Maximiliana Featherstonehaugh", group="featherstones", criteria=marks)
        for each in make_gradebook(report).results
    )
    path = tmp_path / "index.html"
    path.write_text(dashboard.render(Gradebook("week 3", results), "1.0"), encoding="utf-8")
    page = reader.open(path).page
    page.set_viewport_size({"width": 1280, "height": 900})
    assert page.evaluate(BROKEN) == []
