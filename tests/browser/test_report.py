"""The HTML report in a real browser: alone, quiet, for everybody, by keyboard, and on paper."""

import os
from pathlib import Path
from typing import Literal

import pytest

from tests.browser.conftest import OpenedPage, Reader

PAGES = ("index", "split", "mask", "right", "broken", "hostile", "whole")
RULES = {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]}
UNFOLD = "document.querySelectorAll('details').forEach((each) => { each.open = true })"
MOST = 200 << 10
"""bytes of a screenshot for the documents"""


def violations(shown: OpenedPage) -> list[str]:
    """What axe-core finds, a line each."""
    axe = pytest.importorskip("axe_playwright_python.sync_playwright", reason="there is no axe")
    found = axe.Axe().run(shown.page, options=RULES).response["violations"]
    return [
        f"{each['id']}: {node['target']} {node['failureSummary']}"
        for each in found
        for node in each["nodes"]
    ]


@pytest.mark.parametrize("name", PAGES)
def test_page_opens_from_disk_without_requests(
    reader: Reader, pages: dict[str, Path], name: str
) -> None:
    shown = reader.open(pages[name])
    assert shown.page.locator("h1").count() >= (0 if name == "whole" else 1)
    assert shown.errors == []
    assert shown.requested == []
    assert shown.page.evaluate("performance.getEntriesByType('resource').length") == 0


@pytest.mark.parametrize("name", PAGES)
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_page_has_no_accessibility_violations(
    reader: Reader, pages: dict[str, Path], name: str, scheme: Literal["light", "dark"]
) -> None:
    shown = reader.open(pages[name])
    shown.page.emulate_media(color_scheme=scheme)
    assert violations(shown) == []


@pytest.mark.parametrize("name", ["split", "broken", "whole"])
def test_printed_page_has_no_accessibility_violations(
    reader: Reader, pages: dict[str, Path], name: str
) -> None:
    shown = reader.open(pages[name])
    shown.page.emulate_media(media="print", color_scheme="dark")
    assert violations(shown) == []
    ground = shown.page.evaluate("getComputedStyle(document.body).backgroundColor")
    assert ground == "rgb(255, 255, 255)"


def test_on_paper_every_group_is_open(reader: Reader, pages: dict[str, Path]) -> None:
    page = reader.open(pages["split"]).page
    kept = page.get_by_text("The device of the input", exact=False).or_(
        page.get_by_text("The output is on the device of the input.")
    )
    assert not kept.first.is_visible()
    page.emulate_media(media="print")
    assert kept.first.is_visible()


@pytest.mark.parametrize("name", ["split", "hostile", "index", "broken"])
def test_a_narrow_window_scrolls_in_one_direction(
    reader: Reader, pages: dict[str, Path], name: str
) -> None:
    page = reader.open(pages[name]).page
    page.set_viewport_size({"width": 320, "height": 700})
    assert page.evaluate("document.documentElement.scrollWidth") <= 320


def test_pictures_have_accessible_names(reader: Reader, pages: dict[str, Path]) -> None:
    page = reader.open(pages["split"]).page
    page.evaluate(UNFOLD)
    for name in (
        "Expected: attention weights, a row for each token",
        "Got: attention weights, a row for each token",
        "Difference: attention weights, a row for each token",
        "Moved: which outputs move when a token changes",
        "Got: where each of the queries lies after the split",
    ):
        assert page.get_by_role("img", name=name).count() == 1
    for picture in page.get_by_role("img").all():
        box = picture.bounding_box()
        assert box is not None and box["width"] > 80 and box["height"] > 80


def test_faulty_line_is_visible_and_accessible(reader: Reader, pages: dict[str, Path]) -> None:
    page = reader.open(pages["split"]).page
    [marked] = page.locator(".code mark").all()
    assert marked.inner_text().strip() == "queries = self.W_query(x).view(B, nh, T, hs)"
    assert marked.is_visible()
    assert "split by a view alone" in page.locator(".code .why").inner_text()
    assert "never closed" in reader.open(pages["broken"]).page.locator(".code .why").inner_text()


def test_everything_is_reachable_by_keyboard(reader: Reader, pages: dict[str, Path]) -> None:
    page = reader.open(pages["split"]).page
    focused = "document.activeElement.closest('summary, a, [tabindex]')?.textContent.trim() ?? ''"
    reached = []
    for _ in range(80):
        page.keyboard.press("Tab")
        said = page.evaluate(focused)
        if not said:
            break
        reached.append(said)
    assert reached[0] == "All submissions"
    summaries = page.locator("summary:visible").count()
    assert len(reached) >= summaries + 2  # the link, the code, and every group
    group = page.locator("details.group").first
    group.locator("summary").first.focus()
    assert group.get_attribute("open") is None
    page.keyboard.press("Enter")
    assert group.get_attribute("open") is not None
    page.keyboard.press("Space")
    assert group.get_attribute("open") is None


def test_focus_is_visible(reader: Reader, pages: dict[str, Path]) -> None:
    page = reader.open(pages["split"]).page
    page.keyboard.press("Tab")
    outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
    assert outline == "solid"


@pytest.mark.parametrize(("width", "beside"), [(1280, True), (390, False)])
def test_code_is_beside_what_is_said_of_it_on_a_wide_page(
    reader: Reader, pages: dict[str, Path], width: int, beside: bool
) -> None:
    page = reader.open(pages["split"]).page
    page.set_viewport_size({"width": width, "height": 844})
    cause, code = (page.locator(each).bounding_box() for each in (".cause", ".sources"))
    assert cause is not None and code is not None
    assert (code["x"] >= cause["x"] + cause["width"]) is beside
    assert (code["y"] >= cause["y"] + cause["height"]) is not beside


@pytest.mark.parametrize("width", [1280, 390])
def test_score_and_links_stay_in_sight(reader: Reader, pages: dict[str, Path], width: int) -> None:
    page = reader.open(pages["split"]).page
    page.set_viewport_size({"width": width, "height": 844})
    page.evaluate("scrollTo(0, document.documentElement.scrollHeight / 2)")
    assert page.evaluate("scrollY") > 0
    for each in (".bar .verdict", ".bar nav a"):
        box = page.locator(each).first.bounding_box()
        assert box is not None and 0 <= box["y"] < 80


def test_a_line_of_prose_has_some_seventy_characters(
    reader: Reader, pages: dict[str, Path]
) -> None:
    page = reader.open(pages["mask"]).page
    page.set_viewport_size({"width": 1000, "height": 900})
    page.evaluate("document.querySelector('.checks p').textContent = 'these are words '.repeat(60)")
    box = page.locator(".checks p").first.bounding_box()
    assert box is not None
    assert 60 <= 16 * 60 / round(box["height"] / 25.6) <= 85


def test_hostile_names_have_no_effect(reader: Reader, pages: dict[str, Path]) -> None:
    shown = reader.open(pages["hostile"])
    assert shown.page.locator("script, body img").count() == 0
    assert shown.errors == []


@pytest.mark.whole
def test_a_page_is_small(pages: dict[str, Path]) -> None:
    assert max(path.stat().st_size for path in pages.values()) < 1 << 20


@pytest.mark.parametrize(
    ("name", "page", "scheme", "what"),
    [
        ("heat-maps", "mask", "light", "figure.drawn"),
        ("influence-dark", "mask", "dark", "figure.drawn:has-text('One token')"),
        ("layout", "split", "light", "figure.drawn"),
        ("source", "split", "light", "section.source"),
        ("report-dark", "mask", "dark", ""),
    ],
)
def test_screenshots_for_the_docs(
    reader: Reader,
    pages: dict[str, Path],
    tmp_path: Path,
    name: str,
    page: str,
    scheme: Literal["light", "dark"],
    what: str,
) -> None:
    """Kept in the folder that HEADCHECK_SCREENSHOTS names, to be looked at by people."""
    shown = reader.open(pages[page]).page
    shown.emulate_media(color_scheme=scheme)
    if what:
        shown.evaluate(UNFOLD)
    path = Path(os.environ.get("HEADCHECK_SCREENSHOTS", tmp_path)) / f"{name}.png"
    if what:
        shown.locator(what).first.screenshot(path=path)
    else:
        shown.screenshot(path=path)
    assert 0 < path.stat().st_size < MOST
