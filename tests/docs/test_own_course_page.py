"""What docs/own-course.md shows is so: its commands are run as documented, one after the other."""

import re
import shlex
from pathlib import Path

import pytest

from headcheck.grader.authoring import answers, rewrites
from headcheck.grader.ui.author_command import author
from tests.commands import Command, headcheck
from tests.docs.test_readme import ROOT, dialogues, folder

__all__ = ["folder", "headcheck"]

PAGE = (ROOT / "docs" / "own-course.md").read_text(encoding="utf-8")
FEW = 8
"""in ordinary runs, one of so many changes of the solution is judged: all take two minutes"""
FEW_VARIANTS = 2
"""and one of so many rewrites of it"""
OF_ALL_CHANGES = "compute the same as the solution"
"""what is printed of a few of all changes alone"""


def generalise(line: str) -> str:
    """A line without numbers that a new claim or another mutant would change."""
    return re.sub(r" +", " ", re.sub(r"[\d.]*\d", "#", line))


@pytest.fixture
def is_whole(pytestconfig: pytest.Config, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether all changes of the solution are judged; a sample of them, if not."""
    if pytestconfig.getoption("whole"):
        return True
    changes, variants = answers.list_changes, rewrites.list_variants
    monkeypatch.setattr(answers, "list_changes", lambda e: changes(e)[::FEW])
    monkeypatch.setattr(rewrites, "list_variants", lambda e: variants(e)[::FEW_VARIANTS])
    return False


def test_the_course_is_authored_and_graded_as_documented(
    headcheck: Command, folder: Path, is_whole: bool
) -> None:
    assert Path.cwd() == folder
    for command, lines in dialogues(PAGE):
        ran = headcheck(*shlex.split(command)[1:])
        assert ran.code in (0, 1), ran.err
        printed = iter([generalise(line) for line in ran.out.splitlines()])
        for line in lines:
            if is_whole or OF_ALL_CHANGES not in line:
                assert generalise(line) in printed, f"{command}\n{ran.out}\n{ran.err}"


def test_every_option_on_the_page_is_one() -> None:
    told = set(re.findall(r"`(--[a-z-]+)`", PAGE))
    there = {name for p in author.params for name in (*p.opts, *p.secondary_opts)}
    assert told <= there
    assert {"--causal", "--no-causal", "--dropout", "--uniform", "--yes", "--class"} <= told
