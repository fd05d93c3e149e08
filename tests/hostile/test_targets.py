"""Each attack still reaches what it attacks: what it names of this project is there.

An attack that fails because a name has moved is no evidence of a defence.
"""

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

import pytest

from tests.hostile.arena import ROOT
from tests.hostile.corpus import FOLDER

MODULE = re.compile(r"headcheck(\.\w+)+")
PATH = re.compile(r"(?:^|/)(headcheck/[\w./]+)")
OWN = "attacked_"
"""what an attack itself puts into a module of ours begins with it"""
FILES = sorted((FOLDER / "attacks").glob("*.py"))


@cache
def defined_names() -> frozenset[str]:
    """Every function and class of the product."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    patterns = (
        "headcheck/grader/**/*.py",
        "headcheck/properties/**/*.py",
        "headcheck/exercises/*.py",
    )
    return frozenset(
        node.name
        for pattern in patterns
        for path in ROOT.glob(pattern)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, kinds)
    )


def find_missing_targets(tree: ast.Module) -> list[str]:
    """What an attack names of this project that is not there."""
    imports = dict(find_imports(tree))
    dotted = [*imports.values(), *find_attributes(tree, imports)]
    texts = [
        node.value
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    dotted += [text for text in texts if MODULE.fullmatch(text)]
    places = [place for text in texts for place in PATH.findall(text) if "__pycache__" not in place]
    return [
        *(name for name in dotted if not exists(name)),
        *(place for place in places if not (ROOT / place).exists()),
        *sorted(find_targets(tree) - defined_names()),
    ]


def find_imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    """What is imported of this project: the name in the file, and what it stands for."""
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "headcheck":
            yield from (
                (each.asname or each.name, f"{node.module}.{each.name}") for each in node.names
            )


def find_attributes(tree: ast.Module, imports: Mapping[str, str]) -> Iterator[str]:
    """What is read from, or replaced in, what is imported of this project."""
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in imports:
                if not attribute.startswith(OWN):
                    yield f"{imports[name]}.{attribute}"


def find_targets(tree: ast.Module) -> set[str]:
    """The set `TARGETS`: names of functions and classes that it looks for among objects."""
    for node in tree.body:
        match node:
            case ast.Assign(targets=[ast.Name(id="TARGETS")], value=ast.Set(elts=names)):
                return {str(each.value) for each in names if isinstance(each, ast.Constant)}
    return set()


def exists(name: str) -> bool:
    """Whether a dotted name is a module, or something in one."""
    try:
        if importlib.util.find_spec(name):
            return True
    except ModuleNotFoundError:
        pass
    module, _, attribute = name.rpartition(".")
    return bool(module) and exists(module) and hasattr(importlib.import_module(module), attribute)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_attack_names_what_is_there(path: Path) -> None:
    assert find_missing_targets(ast.parse(path.read_text("utf-8"))) == []


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("from headcheck.grader.sandbox import wires", "headcheck.grader.sandbox.wires"),
        (
            "from headcheck.grader.sandbox import wire\nwire.gone = 1",
            "headcheck.grader.sandbox.wire.gone",
        ),
        ("name = 'headcheck.properties.oracles'", "headcheck.properties.oracles"),
        (
            "path = f'{folder}/headcheck/exercises/none/solution.py'",
            "headcheck/exercises/none/solution.py",
        ),
        ("TARGETS = {'Case', 'Kase'}", "Kase"),
    ],
)
def test_name_that_has_moved_is_told(source: str, missing: str) -> None:
    assert find_missing_targets(ast.parse(source)) == [missing]
