"""Bugs that libraries shipped, read from `real_bugs.toml`, and the page that is made of them.

    python -m tests.library.real_bugs > docs/real-bugs.md

A test compares the two.
"""

import functools
import sys
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.exercises.contract_file import load_contract
from headcheck.properties.contracts.contract import Contract

ROOT = Path(__file__).parents[2]
FILE = Path(__file__).with_suffix(".toml")
ADAPTERS = "examples/adapters/"
ROADS: Mapping[str, str] = {
    "grade": "the fixed cases of a grade",
    "verify": "the fixed cases of the pytest plugin, and of `headcheck verify`",
    "compiled": "the same, of a class whose `forward` is compiled",
}
HEAD = """\
# Real bugs

Made by `python -m tests.library.real_bugs > docs/real-bugs.md`; do not edit.

The table lists bugs that libraries shipped, and the property that fails for an answer with the same
fault. We read each bug from its issue. The answers are ours: each is an edit of a right answer. A
test judges each of them: the property is among those that fail, and the right answer passes them
all (`tests/library/test_real_bugs.py`). An answer is in an answer bank
(`headcheck bank show SLUG/NAME` prints it), or in `tests/library/real_bugs.toml`.

"""


@dataclass(frozen=True, slots=True)
class Bug:
    """A bug of libraries: what was promised, and which property accuses an answer that has it."""

    promise: str
    issues: tuple[str, ...]
    answer: str
    property: str
    road: str


@dataclass(frozen=True, slots=True)
class Edited:
    """A wrong answer, with its contract and the right one that it is an edit of."""

    contract: Contract
    base: str
    """by slug and name, or the path of an adapter"""
    right: str
    wrong: str


@functools.cache
def _read_file() -> dict[str, Any]:
    return tomllib.loads(FILE.read_text(encoding="utf-8"))


def list_bugs() -> tuple[Bug, ...]:
    """Return the bugs, in the order of the file."""
    bugs = ({**each, "issues": tuple(each["issues"])} for each in _read_file()["bug"])
    return tuple(Bug(**each) for each in bugs)


def list_faults() -> tuple[str, ...]:
    """Return the names of the answers that are in no bank."""
    return tuple(_read_file()["fault"])


def find_edited(answer: str) -> Edited:
    """Return an answer by its name, with what it is an edit of."""
    if "/" in answer:
        slug, name = answer.split("/")
        exercise = BY_SLUG[slug]
        wrong = find_answer(exercise, name).source
        return Edited(exercise.contract, f"{slug}/solution", exercise.solution, wrong)
    fault = _read_file()["fault"][answer]
    base: str = fault["base"]
    contract, right = _read_base(base)
    wrong = right
    for edit in fault["edits"]:
        assert wrong.count(edit["replace"]) == 1, f"{answer}: {edit['replace']!r} is not there once"
        wrong = wrong.replace(edit["replace"], edit["by"])
    return Edited(contract, base, right, wrong)


def _read_base(base: str) -> tuple[Contract, str]:
    if base.startswith(ADAPTERS):
        path = ROOT / base
        text = path.with_suffix(".py").read_text(encoding="utf-8")
        return load_contract(path.with_suffix(".toml")), text
    exercise = BY_SLUG[base.removesuffix("/solution")]
    return exercise.contract, exercise.solution


# ---------------------------------------------------------------------------------- page


def render_page() -> str:
    """Return the text of the page."""
    return HEAD + "\n".join(_iter_lines(list_bugs()))


def _iter_lines(bugs: Iterable[Bug]) -> Iterator[str]:
    yield "| checked by | tries |"
    yield "|---|---|"
    yield from (f"| {road} | {tries} |" for road, tries in ROADS.items())
    yield ""
    yield "| promise | broken in | answer | property | checked by |"
    yield "|---|---|---|---|---|"
    for bug in bugs:
        issues = (
            ", ".join(map(_link, bug.issues)) or "[what was found](libraries.md#what-was-found)"
        )
        yield f"| {bug.promise} | {issues} | `{bug.answer}` | `{bug.property}` | {bug.road} |"
    yield ""


def _link(issue: str) -> str:
    repository, number = issue.split("#")
    return f"[{issue}](https://github.com/{repository}/issues/{number})"


if __name__ == "__main__":
    sys.stdout.write(render_page())
