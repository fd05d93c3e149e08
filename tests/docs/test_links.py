"""Links and paths in the documents lead somewhere."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
NAMES = [str(page.relative_to(ROOT)) for page in PAGES]
LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
# A path from the root, in backticks: its first part is a folder of the project.
PATH = re.compile(r"`((?:reference|properties|exercises|grader|tests|docs|examples)/[^`\s:]*)`")


def without_blocks(page: Path) -> str:
    return re.sub(r"^```.*?^```", "", page.read_text(encoding="utf-8"), flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    headings = re.findall(r"^#+ (.*)$", without_blocks(page), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("name", NAMES)
def test_links_resolve(name: str) -> None:
    page = ROOT / name
    lost = []
    for link in LINK.findall(without_blocks(page)):
        if link.startswith("https://"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if not target.exists() or (anchor and anchor not in anchors(target)):
            lost.append(link)
    assert lost == []


@pytest.mark.parametrize("name", NAMES)
def test_paths_exist(name: str) -> None:
    paths = PATH.findall(without_blocks(ROOT / name))
    # `<slug>` stands for one that is yet to be made.
    assert [p for p in paths if "<" not in p and not list(ROOT.glob(p))] == []


def test_the_pages_are_found() -> None:
    assert {
        "README.md",
        "docs/architecture.md",
        "docs/adr/0001-flat-packages-one-direction.md",
    } <= {*NAMES}
