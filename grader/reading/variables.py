"""The variables of a notebook or module that its definitions read, from its text alone.

A class that was written in a notebook often takes its sizes from the notebook's variables:
`n_embd`, `block_size`. This module lists these variables. They can be set before the class is built
(`grader/sandbox/worker/loading.py`).
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from headcheck.grader.reading.effects import Effects
from headcheck.grader.reading.symbol_table import SymbolTable

MAX_VARIABLES = 200
"""at most this many variables are described; the others are left out"""
MAX_NUMBER = 1 << 53
"""larger numbers are not sizes, and JSON does not store them exactly"""


@dataclass(frozen=True, slots=True)
class GlobalVariable:
    """A top-level variable, according to its last assignment."""

    name: str
    value: int | float | bool | None
    """None if the value is not a plain number; it may be computed from other variables"""
    cell: int | None
    line: int
    read_by: tuple[str, ...]
    """the definitions that need the variable: they read it, or a value that is computed from it"""


def list_variables(symbols: SymbolTable) -> list[GlobalVariable]:
    """Return the variables that definitions need, in the order of first appearance."""
    needed = _collect_needed(symbols)
    variables = [n for n in symbols.assigned if n in needed and symbols.find_variable(n)]
    readers = _collect_readers(symbols)
    return [_describe(symbols, name, readers) for name in variables[:MAX_VARIABLES]]


def _describe(symbols: SymbolTable, name: str, readers: dict[str, set[str]]) -> GlobalVariable:
    users = _collect_users(name, readers)
    read_by = tuple(other for other in symbols.definitions if other in users)
    last = symbols.assigned[name]
    return GlobalVariable(name, _find_number(symbols, name), last.cell, last.line, read_by)


def _collect_needed(symbols: SymbolTable) -> set[str]:
    """Return all names that any definition depends on, itself included."""
    program = symbols.program
    found, todo = set(symbols.definitions), list(symbols.definitions)
    while todo:
        for index in program.binders.get(todo.pop(), ()):
            new = set(_iter_reads(program.statements[index].effects)) - found
            found |= new
            todo += new
    return found


def _collect_readers(symbols: SymbolTable) -> dict[str, set[str]]:
    """Return, for each name, the names that are bound by statements that read it."""
    readers: dict[str, set[str]] = {}
    for statement in symbols.program.statements:
        for read in _iter_reads(statement.effects):
            readers.setdefault(read, set()).update(statement.effects.binds)
    return readers


def _iter_reads(effects: Effects) -> Iterator[str]:
    yield from effects.eager
    yield from effects.lazy


def _collect_users(name: str, readers: dict[str, set[str]]) -> set[str]:
    """Return all names that depend on a name, itself included."""
    found, todo = {name}, [name]
    while todo:
        new = readers.get(todo.pop(), set()) - found
        found |= new
        todo += new
    return found


def _find_number(symbols: SymbolTable, name: str) -> int | float | bool | None:
    """Return the number last assigned to a variable; None if the value is not a plain number."""
    last = symbols.program.statements[symbols.program.binders[name][-1]].node
    if isinstance(last, ast.AnnAssign):
        return _read_number(last.value)
    if not isinstance(last, ast.Assign):
        return None
    for target in last.targets:
        if isinstance(target, ast.Name) and target.id == name:
            return _read_number(last.value)
        if isinstance(target, ast.Tuple) and isinstance(last.value, ast.Tuple):
            pairs = zip(target.elts, last.value.elts, strict=False)
            values = [v for t, v in pairs if isinstance(t, ast.Name) and t.id == name]
            return _read_number(values[-1] if values else None)
    return None


def _read_number(node: ast.expr | None) -> int | float | bool | None:
    try:
        value = None if node is None else ast.literal_eval(node)
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None
    if not isinstance(value, int | float) or not abs(value) < MAX_NUMBER:  # nan and inf, too
        return None
    return value
