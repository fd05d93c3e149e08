"""The commands about courses, on their page and in the README, are commands."""

import re
import shlex
from pathlib import Path

import pytest

from headcheck.grader.course.formats import LAYOUT_NAMES
from headcheck.grader.course.intake.layouts import LAYOUTS
from headcheck.grader.ui.cli import cli

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "cohort.md").read_text(encoding="utf-8")
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"^```bash\n(.*?)^```", PAGE, re.M | re.S)
INSTRUCTORS = re.findall(r"^```sh\n(.*?)^```", README, re.M | re.S)
LINES = [line for block in (*BLOCKS, *INSTRUCTORS) for line in block.splitlines()]


@pytest.mark.parametrize("line", LINES)
def test_documented_commands_are_valid(line: str) -> None:
    program, name, *arguments = shlex.split(line)
    assert program == "headcheck"
    cli.commands[name].make_context(name, arguments)


def test_the_readme_fills_in_a_gradebook() -> None:
    (block,) = INSTRUCTORS
    assert [line.split()[1] for line in block.splitlines()] == ["grade", "export"]


def test_the_command_offers_every_layout() -> None:
    assert tuple(LAYOUTS) == LAYOUT_NAMES


@pytest.mark.parametrize("name", LAYOUTS)
def test_every_layout_is_explained(name: str) -> None:
    assert f"| `{name}` |" in PAGE


def test_options_on_the_page_are_options() -> None:
    told = set(re.findall(r"`(--[a-z]+)", PAGE))
    there = {o for c in cli.commands.values() for p in c.params for o in p.opts}
    assert told - there == set()
