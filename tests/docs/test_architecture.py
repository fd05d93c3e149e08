"""The walks of docs/architecture.md lead through functions that there are, and call each other."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGE = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
HOP = re.compile(r"^\d+\. `([\w/]+\.py)` `([\w.]+)`", re.MULTILINE)
LAYERS = ("find", "infer", "check", "explain", "record")


def walk(title: str) -> list[tuple[str, str]]:
    """The hops of the section with this title: file and qualified name."""
    section = PAGE.partition(f"### {title}\n")[2].partition("\n### ")[0].partition("\n## ")[0]
    return HOP.findall(section)


def defined_in(path: str) -> set[str]:
    """The qualified names of a file's functions, methods and classes, nested ones included."""

    def names(node: ast.AST, prefix: str) -> list[str]:
        found = []
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef | ast.ClassDef):
                found += [prefix + child.name, *names(child, f"{prefix}{child.name}.")]
            else:
                found += names(child, prefix)
        return found

    return set(names(ast.parse((ROOT / path).read_text(encoding="utf-8")), ""))


@pytest.mark.parametrize(
    "title", ["One submission", "One class without an exercise", "One property"]
)
def test_every_function_of_a_walk_exists(title: str) -> None:
    hops = walk(title)
    assert len(hops) >= 5
    assert [(path, name) for path, name in hops if name not in defined_in(path)] == []


def test_each_function_of_one_submission_is_called_by_one_above_it() -> None:
    """As a profile of the command shows: no function between two of them is left out."""
    command = [
        sys.executable,
        "-m",
        "tests.docs.calls",
        "check",
        "examples/class/alan_turing.ipynb",
    ]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 1, done.stderr  # the example is wrong
    calls = {tuple(line.split(" ")) for line in done.stderr.splitlines()}
    hops = walk("One submission")
    for number, (path, name) in enumerate(hops[1:], 1):
        callers = [f"{p}:{n}" for p, n in hops[:number]]
        assert any((caller, f"{path}:{name}") in calls for caller in callers), name


def list_rows(title: str) -> list[list[str]]:
    """The cells of the first table of a section, without its heading."""
    table = PAGE.partition(f"## {title}\n\n")[2].split("\n\n")[0].splitlines()[2:]
    return [[cell.strip() for cell in row.strip("|").split("|")] for row in table]


def test_a_property_runs_in_at_most_five_ways_each_with_its_reason() -> None:
    ways = list_rows("A property runs in five ways")
    assert len(ways) == 5
    for _, who, why in ways:
        assert why
        assert all((ROOT / path).exists() for path in re.findall(r"`([\w/]+\.py)`", who))


def test_the_walk_names_its_layers_in_order() -> None:
    section = PAGE.partition("### One submission\n")[2].partition("\n### ")[0]
    said = re.findall(r"^\*\*(\w+)\*\*", section, re.MULTILINE)
    assert [word.lower() for word in said if word.lower() in LAYERS] == list(LAYERS)
