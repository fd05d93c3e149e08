"""Find the English texts that students read, where they are written.

A text of a check is often an f-string. Its slots are named after what stands in them.
"""

import ast
import functools
import re
from collections.abc import Iterator, Mapping
from pathlib import Path

from jinja2.ext import extract_from_ast

import headcheck
from headcheck.exercises import ALL as EXERCISES
from headcheck.exercises import Exercise
from headcheck.grader.report.languages.composed import COMPOSED
from headcheck.grader.report.languages.pages import split_blocks
from headcheck.grader.report.render.html import get_environment
from headcheck.properties.listing.summary import load_summaries
from headcheck.properties.mistakes.catalogue import ALL as MISTAKES
from headcheck.properties.mistakes.catalogue.structure import STRUCTURAL

ROOM = Path(next(iter(headcheck.__path__)))
SAYING = ("say", "count")
"""the functions whose first arguments are texts"""
RENDERERS = ("grader/report/render", "grader/report/pictures", "grader/ui")
COMPOSERS = (
    "properties",
    "grader/batch",
    "grader/grading",
    "grader/reading",
    "grader/report",
    "grader/sandbox",
)
"""the folders of modules that compose the texts of records"""
TEMPLATES = "grader/report/render/templates"
LETTERS = re.compile(r"[^\W\d_]{2,}")

IRREGULAR = {"axes": "axis", "indices": "index"}

Forms = tuple[str, ...]
"""a text, or its two forms with a number"""


@functools.cache
def list_said() -> frozenset[Forms]:
    """Return what renderers and templates say themselves."""
    found: set[Forms] = set()
    for folder in RENDERERS:
        for path in sorted((ROOM / folder).rglob("*.py")):
            found |= set(_find_said(ast.parse(path.read_text("utf-8"))))
    environment = get_environment()
    for path in sorted((ROOM / TEMPLATES).glob("*.j2")):
        tree = environment.parse(path.read_text("utf-8"))
        for _, _, texts in extract_from_ast(tree, SAYING):
            parts = texts if isinstance(texts, tuple) else (texts,)
            found.add(tuple(part for part in parts if part))
    return frozenset(found)


def _find_said(tree: ast.Module) -> Iterator[Forms]:
    """Yield the texts that a module says; a name stands for what is assigned to it there."""
    functions = [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]
    for function in functions:
        known = _list_assigned(function)
        for node in ast.walk(function):
            if isinstance(node, ast.Call) and _name_call(node) in SAYING:
                wanted = node.args[: SAYING.index(_name_call(node)) + 1]
                options = [_list_strings(each, known) for each in wanted]
                yield from filter(_has_words, zip(*options, strict=False))


def _has_words(forms: Forms) -> bool:
    return any(map(LETTERS.search, forms))


def _name_call(node: ast.Call) -> str:
    function = node.func
    return function.attr if isinstance(function, ast.Attribute) else getattr(function, "id", "")


def _list_assigned(function: ast.FunctionDef) -> Mapping[str, list[str]]:
    """Return the strings that a function assigns to each name, in order."""
    known: dict[str, list[str]] = {}
    for node in ast.walk(function):
        if not isinstance(node, ast.Assign):
            continue
        [target] = node.targets[:1]
        pairs = [(target, node.value)]
        if isinstance(target, ast.Tuple) and isinstance(node.value, ast.Tuple):
            pairs = list(zip(target.elts, node.value.elts, strict=True))
        for name, value in pairs:
            if isinstance(name, ast.Name):
                known.setdefault(name.id, []).extend(_list_strings(value, {}))
    return known


def _list_strings(node: ast.expr, known: Mapping[str, list[str]]) -> list[str]:
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return [node.value]
    if isinstance(node, ast.IfExp):
        return [*_list_strings(node.body, known), *_list_strings(node.orelse, known)]
    return list(known.get(node.id, ())) if isinstance(node, ast.Name) else []


def list_composed() -> set[str]:
    """Return every string of the modules that compose records, f-strings with slots.

    Names and other words of code are among them.
    """
    found = {each.claim for each in load_summaries()}
    for folder in COMPOSERS:
        for path in sorted((ROOM / folder).rglob("*.py")):
            found |= set(_find_strings(ast.parse(path.read_text("utf-8"))))
    return found


def _find_strings(tree: ast.Module) -> Iterator[str]:
    inside = {
        id(part)
        for node in ast.walk(tree)
        if isinstance(node, ast.JoinedStr)
        for part in node.values
    }
    for node in ast.walk(tree):
        if isinstance(node, ast.Call) and _name_call(node) == "count" and len(node.args) == 2:
            noun = node.args[1]
            if isinstance(noun, ast.Constant) and isinstance(noun.value, str):
                yield from write_forms(noun.value)
        if isinstance(node, ast.JoinedStr) or (
            isinstance(node, ast.Constant) and isinstance(node.value, str)
        ):
            text = write_template(node)
            if id(node) not in inside and LETTERS.search(text):
                yield text


def write_forms(noun: str) -> tuple[str, str]:
    """Return a number with its noun, given the singular or, as for crashes, the plural."""
    plural = noun if noun.endswith("s") or noun in IRREGULAR else f"{noun}s"
    return f"{{n}} {IRREGULAR.get(plural, plural.removesuffix('s'))}", f"{{n}} {plural}"


def write_template(node: ast.JoinedStr | ast.Constant) -> str:
    """Return a string as it is written, with a named slot for each value."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    names: list[str] = []
    parts = []
    for part in node.values:
        if isinstance(part, ast.FormattedValue):
            name = _name_slot(part.value)
            same = names.count(name)
            names.append(name)
            parts.append(f"{{{name}{same + 1 if same else ''}}}")
        elif isinstance(part, ast.Constant):
            parts.append(str(part.value))
    return "".join(parts)


def _name_slot(node: ast.expr) -> str:
    """Return the name of what stands in a slot."""
    match node:
        case ast.Name(id=name) | ast.Attribute(attr=name):
            return name.strip("_")
        case ast.Call(func=function):
            return "n" if _name_call(node) == "len" else _name_slot(function)
        case ast.Subscript(value=value, slice=ast.Constant(value=str(key))):
            return key if key.isidentifier() else _name_slot(value)
        case ast.Subscript(value=value):
            return _name_slot(value)
    return "value"


def list_pages(exercise: Exercise) -> list[str]:
    """Return the title of an exercise, the blocks of its statement, and its hints."""
    blocks = [block for block, is_code in split_blocks(exercise.statement) if not is_code]
    return [exercise.title, *filter(LETTERS.search, blocks), *exercise.hints]


def list_source() -> set[str]:
    """Return every English text that a catalogue may translate."""
    said = {text for forms in (*list_said(), *COMPOSED) for text in forms}
    said |= {
        each.describe(exercise.contract)
        for exercise in EXERCISES
        for each in (*MISTAKES, *(known.mistake for known in STRUCTURAL))
    }
    pages = {text for exercise in EXERCISES for text in list_pages(exercise)}
    return said | pages | list_composed()
