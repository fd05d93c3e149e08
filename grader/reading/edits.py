"""Edits of a submission's text: one part of one line, or of one expression, is replaced.

An edit keeps the number of lines of its cell, so that every line keeps its number.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass, replace

from headcheck.grader.reading.cells import SourceCell, SubmissionSource

BARE = (ast.Name, ast.Attribute, ast.Call, ast.Subscript, ast.Tuple)
"""expressions that mean the same wherever they stand, without parentheses; the `1` of `1.T` does
not"""


@dataclass(frozen=True, slots=True)
class Edit:
    """A replacement in the text of one cell; positions are those of Python's syntax tree."""

    cell: int | None
    line: int
    """the line where the replaced text begins; 0 if `text` is a statement before the first cell"""
    start: int
    """the column where it begins, in bytes of UTF-8"""
    end_line: int
    end: int
    text: str
    """what stands there instead"""
    before: str = ""
    """the replaced code, as it is shown; empty if something is only added"""
    after: str = ""
    """the new code, as it is shown"""


def replace_node(cell: int | None, node: ast.expr | ast.stmt, by: ast.AST) -> Edit:
    """Return the edit that puts other code in the place of an expression or a statement."""
    assert node.end_lineno is not None and node.end_col_offset is not None, "it was parsed"
    after = ast.unparse(by)
    more = "\n" * (node.end_lineno - node.lineno)
    bare = isinstance(by, ast.stmt) or (isinstance(by, BARE) and not more)
    text = f"{after}{more}" if bare else f"({after}{more})"
    place = (node.lineno, node.col_offset, node.end_lineno, node.end_col_offset)
    return Edit(cell, *place, text, ast.unparse(node), after)


def insert(cell: int | None, line: int, column: int, text: str, shown: str) -> Edit:
    """Return the edit that adds text at a position."""
    return Edit(cell, line, column, line, column, text, "", shown)


def prepend(statement: str) -> Edit:
    """Return the edit that adds a statement before everything else."""
    return Edit(None, 0, 0, 0, 0, statement, "", statement)


def apply_edit(source: SubmissionSource, edit: Edit) -> SubmissionSource:
    """Return the edited submission; a cell that an edit is not for stays as it is."""
    if edit.line == 0:
        return SubmissionSource((SourceCell(None, edit.text), *source.cells))
    cells = (
        replace(cell, text=edit_text(cell.text, edit)) if cell.number == edit.cell else cell
        for cell in source.cells
    )
    return SubmissionSource(tuple(cells))


def edit_text(source: str, edit: Edit) -> str:
    """Return the edited text of a cell or a module."""
    lines = source.encode().split(b"\n")
    head, tail = lines[edit.line - 1][: edit.start], lines[edit.end_line - 1][edit.end :]
    changed = head + edit.text.encode() + tail
    kept = [*lines[: edit.line - 1], changed, *lines[edit.end_line :]]
    return b"\n".join(kept).decode(errors="replace")


# ----------------------------------------------------------------------------- syntax trees

DOCUMENTED = (ast.ClassDef, ast.FunctionDef, ast.Module)
Node = ast.expr | ast.stmt


def strip_docstrings(tree: ast.Module) -> ast.Module:
    """Remove the docstrings from a tree, in place."""
    for node in ast.walk(tree):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node):
            node.body = node.body[1:] or [ast.Pass(lineno=0)]
    return tree


def walk(parent: ast.AST, function: str = "") -> Iterator[tuple[Node, str]]:
    """Yield the expressions and statements in a tree, each with the name of its function.

    Annotations, decorators and signatures compute nothing, and are left out. So are the parts of
    f-strings, whose positions Python 3.11 does not tell.
    """
    if isinstance(parent, ast.FunctionDef):
        function = parent.name
    for field, value in ast.iter_fields(parent):
        signature = field in ("annotation", "returns", "decorator_list", "args")
        if signature and not isinstance(parent, ast.Call):
            continue
        for node in value if isinstance(value, list) else (value,):
            if isinstance(node, ast.expr | ast.stmt):
                yield node, function
            if isinstance(node, ast.AST) and not isinstance(node, ast.JoinedStr):
                yield from walk(node, function)
