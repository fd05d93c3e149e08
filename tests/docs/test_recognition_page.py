"""What the page about recognition shows is what is printed."""

from pathlib import Path

from tests.docs.test_readme import ROOT, dialogues, folder, run

__all__ = ["folder"]

PAGE = (ROOT / "docs" / "recognition.md").read_text(encoding="utf-8")


def test_the_example_prints_what_is_shown(folder: Path) -> None:
    [(command, lines)] = dialogues(PAGE)
    printed = run(command, folder).stdout.splitlines()
    assert [line for line in lines if line not in printed] == []
