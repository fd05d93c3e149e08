"""The documentation site in a real browser: narrow, wide, light, dark, searched, offline."""

import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from tests.browser.conftest import OpenedPage
from tests.browser.test_report import violations

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

ROOT = Path(__file__).parents[2]
KINDS = ("index", "docs/exercises", "docs/architecture", "docs/adr/index", "api/contract")
"""the front page, a table, a diagram, a list, and the API"""
THEMES = ("aria-dialog-name", "landmark-unique")
"""what axe-core finds in the theme's own markup: the search has no name, and buttons are a nav"""
CUT = """() => Array.from(document.querySelectorAll('html, .md-content *'))
  .filter((each) => each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0)
  .filter((each) => each.matches('html') || getComputedStyle(each).overflowX === 'hidden')
  .map((each) => `${each.scrollWidth} of ${each.clientWidth}: ${each.outerHTML.slice(0, 80)}`)"""


class QuietHandler(SimpleHTTPRequestHandler):
    """Says nothing about what it is asked for."""

    def log_message(self, format: str, *args: object) -> None: ...


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of the site, built as `tox run -e site` builds it."""
    pytest.importorskip("mkdocs", reason="MkDocs is not installed")
    folder = tmp_path_factory.mktemp("site")
    build = [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet"]
    options = ["--config-file", str(ROOT / "site" / "mkdocs.yml"), "--site-dir", str(folder)]
    subprocess.run([*build, *options], check=True)
    return folder


@pytest.fixture(scope="module")
def address(site: Path) -> Iterator[str]:
    """Where the site is served: a page opened from a file may start no search."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), partial(QuietHandler, directory=site))
    Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}/"
    server.shutdown()
    server.server_close()


@pytest.fixture
def shown(browser: "Browser", address: str) -> Iterator[OpenedPage]:
    """A page, what goes wrong on it, and what it wants from other hosts."""
    context = browser.new_context(base_url=address, viewport={"width": 1280, "height": 900})
    shown = OpenedPage(context.new_page(), [], [])
    shown.page.on(
        "console",
        lambda said: shown.errors.append(said.text) if said.type in ("error", "warning") else None,
    )
    shown.page.on("pageerror", lambda error: shown.errors.append(str(error)))
    shown.page.on(
        "request",
        lambda asked: (
            None if asked.url.startswith((address, "blob:", "data:"))
            else shown.requested.append(asked.url)
        ),
    )  # fmt: skip
    yield shown
    context.close()


@pytest.mark.parametrize("width", [390, 1280])
def test_no_page_scrolls_sideways_or_asks_another_host(
    shown: OpenedPage, site: Path, width: int
) -> None:
    shown.page.set_viewport_size({"width": width, "height": 900})
    names = sorted(str(path.relative_to(site)) for path in site.rglob("*.html"))
    decisions = [name for name in names if name.startswith("docs/adr/0")]
    others = [name for name in names if name not in decisions]
    assert len(others) > 30
    tried = others + decisions[::10]
    assert [each for name in tried for each in find_cut(shown.page, name)] == []
    assert (shown.errors, shown.requested) == ([], [])


def find_cut(page: "Page", name: str) -> list[str]:
    """What of a page lies beside the window, or is hidden."""
    page.goto(name)
    cut: list[str] = page.evaluate(CUT)
    return [f"{name}: {each}" for each in cut]


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize("name", KINDS)
def test_pages_are_accessible(shown: OpenedPage, name: str, scheme: str) -> None:
    shown.page.emulate_media(color_scheme="dark" if scheme == "dark" else "light")
    shown.page.goto(f"{name}.html")
    assert [each for each in violations(shown) if not each.startswith(THEMES)] == []


def test_search_finds_a_page_and_a_name_of_the_api(shown: OpenedPage) -> None:
    shown.page.goto("index.html")
    field = shown.page.locator("input[name=query]")
    for words, found in (("roster", "docs/cohort.html"), ("Verification", "api/verify.html")):
        field.fill("")
        field.press_sequentially(words)  # the theme listens to keys
        shown.page.locator(f".md-search-result__link[href*='{found}']").first.wait_for()
    assert (shown.errors, shown.requested) == ([], [])
