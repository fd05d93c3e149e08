"""Every fragment of the changelog has a type that towncrier knows, and is one sentence or two."""

import re
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SETTINGS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["tool"]["towncrier"]
TYPES = {each["directory"] for each in SETTINGS["type"]}
FRAGMENTS = ROOT / SETTINGS["directory"]
# A full stop inside a name, such as `report.json`, ends no sentence.
SENTENCE_END = re.compile(r"[.!?](?=\s|$)")


def describe_fault(name: str, text: str) -> str:
    """Return what is wrong with a fragment, or nothing."""
    named = re.fullmatch(r"(?:\d+|\+[a-z0-9-]+)\.([a-z]+)\.md", name)
    if named is None:
        return "is not named NUMBER.TYPE.md or +WORD.TYPE.md"
    if named[1] not in TYPES:
        return f"has the type {named[1]}, which is none of {', '.join(sorted(TYPES))}"
    sentences = len(SENTENCE_END.findall(text.strip()))
    if sentences not in (1, 2) or not SENTENCE_END.match(text.strip()[-1:]):
        return f"holds {sentences} sentences instead of one or two"
    return ""


def test_every_fragment_can_be_released() -> None:
    fragments = [path for path in FRAGMENTS.iterdir() if path.name != "README.md"]
    faults = {each.name: describe_fault(each.name, each.read_text("utf-8")) for each in fragments}
    assert {name: fault for name, fault in faults.items() if fault} == {}


def test_a_new_release_goes_below_the_mark() -> None:
    changelog = (ROOT / SETTINGS["filename"]).read_text(encoding="utf-8")
    assert changelog.count(SETTINGS["start_string"]) == 1


@pytest.mark.parametrize(
    ("name", "text", "fault"),
    [
        ("12.fixed.md", "`grade` keeps `report.json`.\n", ""),
        ("+order.added.md", "Students are sorted. Names come first.\n", ""),
        ("fixed.md", "It works.\n", "is not named"),
        ("12.news.md", "It works.\n", "has the type news"),
        ("12.fixed.md", "\n", "holds 0 sentences"),
        ("12.fixed.md", "It works. It is fast. It is kind.\n", "holds 3 sentences"),
        ("12.fixed.md", "It works. And\n", "holds 1 sentences"),
    ],
)
def test_faults_of_a_fragment_are_found(name: str, text: str, fault: str) -> None:
    found = describe_fault(name, text)
    assert found.startswith(fault) and bool(found) == bool(fault)
