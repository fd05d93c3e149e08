"""Cut a class and the code it needs out of a file, and mark the students' part.

Students get imports, constants and configs, the signature of every method that is called from
outside, and the comments above them. They write the bodies of these methods, all other methods of
the class, and the classes and functions that the class needs.
"""

import ast
from collections.abc import Sequence

from headcheck.exercises.starter import BEGIN, END
from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.slicing import Statement, compute_slice

FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
GIVEN = ("__init__", "forward")
"""methods whose signatures the starter gives"""
DATA = ("dataclass", "dataclasses.dataclass", "NamedTuple", "TypedDict", "SimpleNamespace", "Enum")
"""decorators and bases of classes that only hold values, such as configs"""


def extract_solution(source: SubmissionSource, name: str) -> str:
    """Return a module of a class and all code it needs, with the markers of `exercises.starter`."""
    pieces = [
        _mark(_read_text(source, statement), name) for statement in compute_slice(source, name)
    ]
    return f"{_join(pieces)}\n"


def _join(pieces: Sequence[str]) -> str:
    """Join statements: two blank lines around statements with a body, none between the others."""
    text = ""
    for before, after in zip(["", *pieces[:-1]], pieces, strict=True):
        apart = "\n" in before or "\n" in after
        text += ("\n\n\n" if apart else "\n") * bool(before) + after
    return text


def _read_text(source: SubmissionSource, statement: Statement) -> str:
    """Return the source of a statement, with its decorators and the comments directly above it."""
    lines = next(c.text for c in source.cells if c.number == statement.cell).splitlines()
    node = statement.node
    decorators = getattr(node, "decorator_list", [])
    first = min([node.lineno, *(decorator.lineno for decorator in decorators)]) - 1
    last = node.end_lineno or node.lineno
    if node.col_offset or ";" in lines[first] or ";" in lines[last - 1]:
        return ast.unparse(node)  # it shares its line with another
    while first and lines[first - 1].startswith("#") and not lines[first - 1].startswith("# %%"):
        first -= 1
    return "\n".join(lines[first:last])


def _mark(text: str, name: str) -> str:
    """Return a statement with markers around the code that the student writes."""
    node = ast.parse(text).body[0]
    if isinstance(node, ast.ClassDef) and node.name == name:
        if any(isinstance(each, FUNCTIONS) and not _stands_apart(each) for each in node.body):
            text = ast.unparse(node)
            (node,) = ast.parse(text).body
        assert isinstance(node, ast.ClassDef)
        return _mark_class(text, node)
    hidden = isinstance(node, FUNCTIONS) or (isinstance(node, ast.ClassDef) and not _is_data(node))
    return f"{BEGIN}\n{text}\n{END}" if hidden else text


def _is_data(node: ast.ClassDef) -> bool:
    named = {ast.unparse(d).partition("(")[0] for d in (*node.decorator_list, *node.bases)}
    methods = any(isinstance(each, FUNCTIONS) and each.name == "forward" for each in node.body)
    plain = not node.bases and not any(isinstance(each, FUNCTIONS) for each in node.body)
    return not methods and (plain or bool(named & {*DATA}))


def _stands_apart(node: ast.FunctionDef | ast.AsyncFunctionDef) -> bool:
    """Whether the body of a function begins on a new line after its header."""
    parts = (each for each in ast.walk(node.args) if isinstance(each, ast.expr | ast.arg))
    last = max((each.end_lineno or 0 for each in parts), default=0)
    return node.body[0].lineno > max(last, (node.returns or node).lineno)


def _mark_class(text: str, node: ast.ClassDef) -> str:
    lines = text.splitlines()
    hidden = [region for region in map(_find_region, node.body) if region is not None]
    for first, last, indent in reversed(_merge(hidden, lines)):
        lines[last:last] = [f"{' ' * indent}{END}"]
        lines[first - 1 : first - 1] = [f"{' ' * indent}{BEGIN}"]
    return "\n".join(lines)


Region = tuple[int, int, int]
"""the first line, the last line and the indentation of a region"""


def _find_region(node: ast.stmt) -> Region | None:
    """Return the lines of a statement of the class that the student writes."""
    if not isinstance(node, FUNCTIONS):
        return None
    if node.name not in GIVEN:
        first = min([node.lineno, *(d.lineno for d in node.decorator_list)])
        return first, node.end_lineno or node.lineno, node.col_offset
    body = node.body[_count_given(node.body) :]
    if not body:
        return None
    return body[0].lineno, body[-1].end_lineno or body[-1].lineno, body[0].col_offset


def _count_given(body: Sequence[ast.stmt]) -> int:
    """Return how many statements at the start of a body are given: a docstring, super()."""
    count = 0
    for node in body:
        text = isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant)
        begins = ast.unparse(node).startswith("super(") and ".__init__(" in ast.unparse(node)
        if not (text or begins):
            break
        count += 1
    return min(count, len(body) - 1) if len(body) > 1 else 0


def _merge(regions: Sequence[Region], lines: Sequence[str]) -> list[Region]:
    """Return the regions; neighbouring methods, with the comments above them, form one region."""
    merged: list[Region] = []
    for first, last, indent in regions:
        above = first
        while above > 1 and lines[above - 2].startswith(f"{' ' * indent}#"):
            above -= 1
        between = lines[merged[-1][1] : above - 1] if merged else ["code"]
        if merged and merged[-1][2] == indent and not any(line.strip() for line in between):
            merged[-1] = (merged[-1][0], last, indent)
        else:
            merged.append((above, last, indent))
    return merged
