"""Each attack still reaches what it attacks: what it names of this project is there.

An attack that fails because a name has moved is no evidence of a defence.
"""

import ast
import importlib
import importlib.util
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.hostile.arena import ROOT
from tests.hostile.corpus import FOLDER

ROOMS = ("grader", "exercises", "properties", "reference")
MODULE = re.compile(rf"({'|'.join(ROOMS)})(\.\w+)+")
PATH = re.compile(rf"(?:^|/)((?:{'|'.join(ROOMS)})/[\w./]+)")
OWN = "attacked_"
"""what an attack itself puts into a module of ours begins with it"""
FILES = [*sorted((FOLDER / "attacks").glob("*.py")), *sorted((FOLDER / "twins").glob("*.py"))]


@cache
def defined_names() -> frozenset[str]:
    """Every function and class of the product."""
    kinds = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    patterns = ("grader/**/*.py", "properties/**/*.py", "exercises/*.py")
    return frozenset(
        node.name
        for pattern in patterns
        for path in ROOT.glob(pattern)
        for node in ast.walk(ast.parse(path.read_text("utf-8")))
        if isinstance(node, kinds)
    )


def find_missing_targets(tree: ast.Module) -> Iterator[str]:
    """What an attack names of this project that is not there."""
    modules = {}
    for node in ast.walk(tree):
        match node:
            case ast.ImportFrom(module=str(source)) if source.split(".")[0] in ROOMS:
                for each in node.names:
                    if importlib.util.find_spec(f"{source}.{each.name}"):
                        modules[each.asname or each.name] = f"{source}.{each.name}"
                    elif not hasattr(importlib.import_module(source), each.name):
                        yield f"{source}.{each.name}"
            case ast.Constant(value=str(text)) if MODULE.fullmatch(text):
                if not exists(text):
                    yield text
            case ast.Constant(value=str(text)):
                for place in PATH.findall(text):
                    if "__pycache__" not in place and not (ROOT / place).exists():
                        yield place
            case ast.Assign(targets=[ast.Name(id="TARGETS")], value=ast.Set(elts=names)):
                given = {each.value for each in names if isinstance(each, ast.Constant)}
                yield from sorted(given - defined_names())
    for node in ast.walk(tree):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name in modules:
                if not attribute.startswith(OWN) and not exists(f"{modules[name]}.{attribute}"):
                    yield f"{modules[name]}.{attribute}"


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
    assert list(find_missing_targets(ast.parse(path.read_text("utf-8")))) == []


@pytest.mark.parametrize(
    ("source", "missing"),
    [
        ("from grader.sandbox import wires", "grader.sandbox.wires"),
        ("from grader.sandbox import wire\nwire.gone = 1", "grader.sandbox.wire.gone"),
        ("name = 'properties.oracles'", "properties.oracles"),
        ("path = f'{folder}/exercises/none/solution.py'", "exercises/none/solution.py"),
        ("TARGETS = {'Case', 'Kase'}", "Kase"),
    ],
)
def test_name_that_has_moved_is_told(source: str, missing: str) -> None:
    assert list(find_missing_targets(ast.parse(source))) == [missing]
