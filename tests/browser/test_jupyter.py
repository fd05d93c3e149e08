"""A student's path in JupyterLab: start, write, check, see what is wrong, mend it, full marks.

Screenshots go where HEADCHECK_SCREENSHOTS says, which is how those in docs/images are made.
"""

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import nbformat
import pytest

import headcheck
from headcheck.exercises import BY_SLUG, starter
from headcheck.exercises.starter import BEGIN, END, PLACEHOLDER

pytest.importorskip("jupyterlab", reason="needs jupyterlab, which the tox environment browser has")
pytest.importorskip("playwright", reason="needs playwright, which the tox environment browser has")
from playwright.sync_api import Browser, Locator, Page, expect

ROOMS = str(Path(headcheck.__path__[0]).parent)
EXERCISE = BY_SLUG["causal_attention"]
TOKEN = "tested"
SECONDS = 1000
SETTINGS: dict[str, dict[str, Any]] = {
    # All cells are in the page, also those that are not in sight.
    "notebook-extension/tracker": {"windowingMode": "none"},
    "apputils-extension/themes": {"theme": "JupyterLab Light"},
    "apputils-extension/notification": {"fetchNews": "false", "checkForUpdates": False},
}


@dataclass(frozen=True)
class Lab:
    """A server with a folder of notebooks."""

    address: str
    folder: Path
    configuration: Path

    def set(self, plugin: str, values: dict[str, Any]) -> None:
        """Settings of a plugin of JupyterLab, which the next page that is opened has."""
        path = self.configuration / "lab/user-settings/@jupyterlab" / plugin
        path.parent.mkdir(parents=True, exist_ok=True)
        path.with_suffix(".jupyterlab-settings").write_text(json.dumps(values))


def serving(process: "subprocess.Popen[bytes]", runtime: Path) -> str:
    """The address of a server, once it has one."""
    limit = time.monotonic() + 60
    while time.monotonic() < limit:
        assert process.poll() is None, "the server ended"
        for file in runtime.glob("jpserver-*.json"):
            known = json.loads(file.read_text() or "{}")
            if known.get("port"):
                return f"http://127.0.0.1:{known['port']}"
        time.sleep(0.1)
    raise AssertionError("the server did not start within a minute")


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    place = tmp_path_factory.mktemp("lab")
    notebooks = place / "notebooks"
    starter.write_starters([EXERCISE, BY_SLUG["linear_layer"]], notebooks, form="ipynb")
    own = {
        "HOME": str(place),
        "IPYTHONDIR": str(place / "ipython"),
        "JUPYTER_CONFIG_DIR": str(place / "config"),
        "JUPYTER_DATA_DIR": str(place / "data"),
        "JUPYTER_RUNTIME_DIR": str(place / "runtime"),
        "PYTHONPATH": ROOMS,
    }
    options = [
        *("--no-browser", "--allow-root", "--ip=127.0.0.1", "--ServerApp.port=0"),
        *(f"--IdentityProvider.token={TOKEN}", f"--ServerApp.root_dir={notebooks}"),
    ]
    found = Lab("", notebooks, place / "config")
    for plugin, values in SETTINGS.items():
        found.set(plugin, values)
    with (place / "log").open("wb") as log:
        process = subprocess.Popen(
            [sys.executable, "-m", "jupyterlab", *options],
            env=os.environ | own,
            cwd=place,
            stdout=log,
            stderr=log,
        )
        try:
            yield Lab(serving(process, place / "runtime"), notebooks, found.configuration)
        finally:
            process.terminate()
            process.wait(timeout=30)


@pytest.fixture
def page(browser: Browser) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 1200, "height": 1100})
    context.set_default_timeout(60 * SECONDS)
    yield context.new_page()
    context.close()


def opened(page: Page, lab: Lab, name: str) -> Page:
    """A notebook, with its kernel ready."""
    page.goto(f"{lab.address}/lab/tree/{name}?token={TOKEN}&reset")
    page.locator(".jp-Notebook .jp-CodeCell").first.wait_for()
    expect(page.locator("#jp-main-statusbar")).to_contain_text("| Idle", timeout=60 * SECONDS)
    return page


def numbered(page: Page, wanted: Locator) -> int:
    """Which of the code cells it is, counted from 0: what is in it will change."""
    [handle] = wanted.element_handles()
    number: int = page.locator(".jp-CodeCell").evaluate_all(
        "(cells, wanted) => cells.indexOf(wanted)", handle
    )
    return number


def write(page: Page, cell: Locator, source: str) -> None:
    """Put source into a cell in place of what is there, as pasting does."""
    cell.locator(".cm-content").click()
    page.keyboard.press("Control+A")
    page.keyboard.insert_text(source)


def run_all(page: Page) -> None:
    page.get_by_role("menuitem", name="Run", exact=True).click()
    page.get_by_role("menuitem", name="Run All Cells", exact=True).click()


def keep(shown: Locator, name: str) -> None:
    """A screenshot, where somebody wants it."""
    folder = os.environ.get("HEADCHECK_SCREENSHOTS")
    if folder:
        shown.evaluate("element => element.scrollIntoView()")
        shown.page.locator(".jp-NotebookPanel").screenshot(path=Path(folder) / name)


def answer() -> str:
    """The cell of the solution that a student writes."""
    [cell] = [c for c in re.split(r"^# %%.*\n", EXERCISE.solution, flags=re.M) if BEGIN in c]
    return "\n".join(line for line in cell.splitlines() if line.strip() not in (BEGIN, END))


def mistaken() -> str:
    """The same with the mask one diagonal too late."""
    assert answer().count("diagonal=1") == 1
    return answer().replace("diagonal=1", "diagonal=2")


def result(page: Page) -> Locator:
    return page.locator(".jp-Notebook .headcheck").last


def contrast(shown: Locator) -> float:
    """Between an element's text and the ground behind it: at least 4.5 can be read."""
    found: float = shown.evaluate(
        """element => {
          const canvas = document.createElement("canvas").getContext("2d");
          const rgb = colour => {
            canvas.clearRect(0, 0, 1, 1); canvas.fillStyle = colour; canvas.fillRect(0, 0, 1, 1);
            return [...canvas.getImageData(0, 0, 1, 1).data];
          };
          const light = ([r, g, b]) => [r, g, b].map(v => v / 255)
            .map(v => v <= .04045 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4)
            .reduce((sum, v, i) => sum + v * [.2126, .7152, .0722][i], 0);
          let behind = element;
          while (rgb(getComputedStyle(behind).backgroundColor)[3] < 255)
            behind = behind.parentElement;
          const [a, b] = [getComputedStyle(element).color, getComputedStyle(behind).backgroundColor]
            .map(colour => light(rgb(colour)) + .05);
          return Math.max(a, b) / Math.min(a, b);
        }"""
    )
    return found


def test_notebook_from_starter_over_a_mistake_to_full_marks(lab: Lab, page: Page) -> None:
    opened(page, lab, "causal_attention.ipynb")
    cell = page.locator(".jp-CodeCell").filter(has_text=PLACEHOLDER)
    cell = page.locator(".jp-CodeCell").nth(numbered(page, cell))
    keep(page.locator(".jp-Notebook .jp-Cell").first, "jupyter-start.png")

    run_all(page)
    expect(result(page).locator(".verdict").first).to_contain_text("0 / ", timeout=60 * SECONDS)

    write(page, cell, mistaken())
    run_all(page)
    shown = result(page)
    expect(shown).to_contain_text("the mask begins one diagonal too late", timeout=60 * SECONDS)
    expect(shown).to_contain_text("Changing a later token leaves every earlier output unchanged.")
    expect(shown.locator(".verdict .status").first).to_contain_text("failed")
    keep(shown, "jupyter-mistake.png")
    heat_map = shown.locator("figure.drawn").first
    expect(heat_map.locator("svg.picture")).to_have_count(3)  # expected, got, and the difference
    expect(heat_map.locator("svg.picture").first).to_be_visible()
    expect(heat_map).to_contain_text("which should be hidden from it")
    keep(heat_map, "jupyter-heat-map.png")

    write(page, cell, answer())
    run_all(page)
    verdict = result(page).locator(".verdict").first
    expect(verdict).to_have_text(re.compile(r" (\d+) / \1 +. passed"), timeout=60 * SECONDS)
    keep(result(page), "jupyter-passed.png")


@pytest.mark.parametrize("theme", ["Light", "Dark"])
def test_failure_is_readable_in_both_themes(lab: Lab, page: Page, theme: str) -> None:
    lab.set("apputils-extension/themes", {"theme": f"JupyterLab {theme}"})
    notebook = nbformat.reads(starter.render_notebook(EXERCISE), as_version=4)
    [cell] = [cell for cell in notebook.cells if PLACEHOLDER in cell.source]
    noted = "print(x.shape)  # which is noted"
    cell.source = mistaken().replace("tokens = ", f"{noted}\n        tokens = ")
    (lab.folder / f"{theme}.ipynb").write_text(nbformat.writes(notebook), encoding="utf-8")
    opened(page, lab, f"{theme}.ipynb")
    run_all(page)
    shown = result(page)
    expect(shown.locator(".verdict")).to_contain_text("failed", timeout=60 * SECONDS)
    expect(page.locator("body")).to_have_attribute(
        "data-jp-theme-light", str(theme == "Light").lower()
    )
    seen = [
        ".verdict b",
        ".verdict .status",
        ".quiet",
        ".group h4",
        ".count",
        ".message",
        ".notes li",
    ]
    for selector in seen:
        assert contrast(shown.locator(selector).first) >= 4.5, selector
    keep(shown, f"jupyter-{theme.lower()}.png")


def test_the_links_of_the_contents_open_the_exercises(lab: Lab, page: Page) -> None:
    page.goto(f"{lab.address}/lab/tree/contents.ipynb?token={TOKEN}&reset")
    page.get_by_role("link", name="A linear layer").click()
    tab = page.get_by_role("tab", name="linear_layer.ipynb")
    expect(tab).to_be_visible()
