"""What docs/own-course.md shows is so: its commands are run as documented, one after the other."""

import re
import subprocess
from pathlib import Path

import pytest

from headcheck.grader.ui.author_command import author
from tests.docs.test_readme import ROOT, dialogues, folder, run

__all__ = ["folder"]

PAGE = (ROOT / "docs" / "own-course.md").read_text(encoding="utf-8")


def generalise(line: str) -> str:
    """A line without numbers that a new claim or another mutant would change."""
    return re.sub(r" +", " ", re.sub(r"[\d.]*\d", "#", line))


def run_patiently(command: str, place: Path) -> subprocess.CompletedProcess[str]:
    with pytest.MonkeyPatch.context() as patch:
        whole = subprocess.run
        patch.setattr(subprocess, "run", lambda *a, **k: whole(*a, **{**k, "timeout": 1200}))
        return run(command, place)


def test_the_course_is_authored_and_graded_as_documented(folder: Path) -> None:
    for command, lines in dialogues(PAGE):
        ran = run_patiently(command, folder)
        assert ran.returncode in (0, 1), ran.stderr
        printed = iter([generalise(line) for line in ran.stdout.splitlines()])
        for line in lines:
            assert generalise(line) in printed, f"{command}\n{ran.stdout}\n{ran.stderr}"


def test_every_option_on_the_page_is_one() -> None:
    told = set(re.findall(r"`(--[a-z-]+)`", PAGE))
    there = {name for p in author.params for name in (*p.opts, *p.secondary_opts)}
    assert told <= there
    assert {"--causal", "--no-causal", "--dropout", "--uniform", "--yes", "--class"} <= told
