"""Slice a submission: find the statements that one definition needs, without running any.

Theory
------
A submission is a sequence of top-level statements; a notebook's cells are concatenated in
source order. The effects of each statement follow from its syntax:

- eager: names it reads while it runs, as in bases, decorators, defaults, annotations and the bodies
  of classes
- lazy: names that a function in it reads when it is called later
- kills: names it certainly binds, so that their earlier meaning no longer matters
- changes: names whose objects it changes in place, as in `cfg["n"] = 3`, `Attention.forward = f`,
  `setattr(Attention, …)`, `import a.b`, or a statement that grows a list, set or dict
  (`sizes.append(3)`)
- binds: all of these, names it may bind (one branch of an `if`), and names that a function it calls
  declares `global`

What `name` means at a given moment is decided by the statements before it (its reaching
definitions): walking backwards, all statements that bind it, up to and including the first that
kills it. So an eager read looks backwards from its own statement (`class B(A)` between two
definitions of A has the first as its base), and a lazy read looks backwards from the end, where the
grader process calls, and from every statement that could have called the function before. An object
that was read can be changed in place later on (`Base.forward = f` below `class B(Base)`), under its
name, until the name is bound anew.

The slice is the smallest set that binds the wanted name at the end and is closed under these reads.
In doubt a statement is included: a superfluous statement costs time, but a missing one fails a
correct submission. A statement is taken whole or not at all.

Left out: calls, prints, plots and training loops that bind nothing needed, and the body of
`if __name__ == "__main__"`. Not followed: a second name for the same object
(`c = cfg; c["n"] = 3`), changes hidden in calls, names made by `exec` or `globals()`.
Star imports stay, since any name may come from them, and so do `__future__` imports, whose
effect reaches all later statements.
"""

import __future__

import ast
import linecache
import re
import sys
import warnings
from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import CodeType, TracebackType

from headcheck.grader.reading.cells import SourceCell, SubmissionSource, parse
from headcheck.grader.reading.effects import Effects, analyse_effects

_FUTURE_ANNOTATIONS = __future__.annotations.compiler_flag
PRESENT = sys.stdlib_module_names | {"torch", "numpy", "jaxtyping"}
"""the modules that are there wherever a submission runs"""
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_FILENAME = re.compile(r"<cell (\d{1,9})>|<submission>")


# ------------------------------------------------------------------------------ slices


def compute_slice(source: SubmissionSource, name: str) -> tuple["Statement", ...]:
    """Return the statements, in source order, that define `name` as it is at the end.

    The list is empty if no statement binds the name and there is no star import from which the name
    could come.
    """
    program = read_program(source)
    end = len(program.statements)
    todo = [(statement, end) for statement in program.find_reaching_definitions(name, end)]
    kept = {s.index for s in program.statements if s.effects.star or s.effects.future}
    if not todo and not any(s.effects.star for s in program.statements):
        return ()
    seen: set[tuple[int, int]] = set()
    while todo:
        statement, moment = todo.pop()
        if (statement.index, moment) not in seen:
            seen.add((statement.index, moment))
            kept.add(statement.index)
            uses = [(statement, end), *program.find_dependencies(statement, moment)]
            # A statement with the same dependencies at all moments is visited once.
            todo += [(s, when if s.index in program.time_dependent else end) for s, when in uses]
    return tuple(program.statements[index] for index in sorted(kept))


def get_filename(cell: int | None) -> str:
    """Return the file name under which a cell, or a module, appears in tracebacks."""
    return "<submission>" if cell is None else f"<cell {cell}>"


Position = tuple[int | None, int]
"""a cell, or None for a module, and a line"""


def register_source(cell: SourceCell) -> None:
    """Let `inspect.getsource` find a cell's text, because torch.jit.script compiles this text."""
    name, lines = get_filename(cell.number), cell.text.splitlines(keepends=True)
    linecache.cache[name] = (len(cell.text), None, lines, name)


def parse_position(filename: str | None, line: int | None) -> Position | None:
    """Return the position that a file name of a compiled statement stands for."""
    match = _FILENAME.fullmatch(filename or "")
    if match is None:
        return None
    return (int(match[1]) if match[1] else None), line or 1


def compute_union_slice(source: SubmissionSource, names: list[str]) -> list["Statement"]:
    """Return the statements that these definitions need, each only once, in source order."""
    found = {step.index: step for name in names for step in compute_slice(source, name)}
    return [found[index] for index in sorted(found)]


def locate_error(
    problem: BaseException | TracebackType | None,
    locate_line: Callable[[str | None, int | None], Position | None] = parse_position,
) -> Position | None:
    """Return the position of the innermost frame in the submission; None if there is none.

    `locate_line` maps file names and lines to positions, by default for the file names of compiled
    statements. A syntax error from compiling a statement has no frame in the submission, but stores
    its position.
    """
    if isinstance(problem, SyntaxError) and (
        position := locate_line(problem.filename, problem.lineno)
    ):
        return position
    trace = problem.__traceback__ if isinstance(problem, BaseException) else problem
    innermost = None
    while trace is not None:
        innermost = locate_line(trace.tb_frame.f_code.co_filename, trace.tb_lineno) or innermost
        trace = trace.tb_next
    return innermost


# ---------------------------------------------------------------------------- programs


@dataclass(frozen=True, slots=True)
class Statement:
    """A top-level statement with its position and effects, ready to be compiled and run."""

    index: int
    node: ast.stmt
    cell: int | None
    flags: int
    """the `__future__` features in force, as compiler flags"""
    effects: Effects

    def compile(self) -> CodeType:
        """Compile to code with the cell's line numbers and a file name that `locate_error` knows.

        Raises SyntaxError if the statement awaits at top level, which needs a running notebook.
        """
        module = ast.Module([self.node], type_ignores=[])
        with warnings.catch_warnings(action="ignore"):
            filename = get_filename(self.cell)
            code: CodeType = compile(module, filename, "exec", self.flags, dont_inherit=True)
        return code


@dataclass(frozen=True, slots=True)
class Program:
    """The statements of a submission, and which of them bind which name."""

    statements: tuple[Statement, ...]
    binders: dict[str, list[int]]
    time_dependent: frozenset[int]
    """the indices of the statements whose dependencies may differ from one moment to another"""
    lines: Mapping[int | None, Sequence[str]]
    """the lines of each cell"""

    def find_reaching_definitions(self, name: str, before: int) -> Iterator[Statement]:
        """Yield the statements that decide what a name means just before statement `before`."""
        binders = self.binders.get(name, [])
        for index in reversed(binders[: bisect_left(binders, before)]):
            yield self.statements[index]
            if name in self.statements[index].effects.kills:
                return

    def _resolve_name(self, name: str, at: int, until: int) -> Iterator[Statement]:
        """Yield a name's reaching definitions at one moment, and later changes of its object."""
        yield from self.find_reaching_definitions(name, at)
        binders = self.binders.get(name, [])
        for index in binders[bisect_left(binders, at) : bisect_left(binders, until)]:
            effects = self.statements[index].effects
            if name in effects.kills:
                return
            if name in effects.changes:
                yield self.statements[index]

    def find_dependencies(self, user: Statement, moment: int) -> Iterator[tuple[Statement, int]]:
        """Yield the statements that `user` needs if the names it binds are used at `moment`.

        Each comes with a moment at which it is used itself: the parts of a value are used when
        the value is used.
        """
        effects, here = user.effects, user.index
        # A bare definition runs no function; other statements may, by operators and attributes.
        passive = isinstance(user.node, (*_FUNCTIONS, ast.ClassDef))
        moments = {moment} if passive and not effects.runs_code else {moment, here}
        reads = [(name, when) for name in effects.lazy for when in moments]
        reads += [(name, here) for name in effects.eager]
        for name, when in reads:
            for statement in self._resolve_name(name, when, moment):
                yield statement, moment
                if here in moments and statement.index < here:
                    yield statement, here


@lru_cache(maxsize=4)
def read_program(source: SubmissionSource) -> Program:
    """Read the effects of every top-level statement of the cells that are Python."""
    statements: list[Statement] = []
    flags, foreign = 0, set[str]()
    for cell in source.cells:
        for node in () if cell.error else _iter_top_level(parse(cell.text)):
            own = flags | _FUTURE_ANNOTATIONS if _names_foreign_types(node, foreign) else flags
            effects = analyse_effects(node, annotations_run=not own & _FUTURE_ANNOTATIONS)
            foreign |= _list_foreign(node)
            flags |= effects.future
            own |= effects.future
            statements.append(Statement(len(statements), node, cell.number, own, effects))
    _resolve_cross_statement_effects(statements)
    binders: dict[str, list[int]] = {}
    for statement in statements:
        for name in statement.effects.binds:
            binders.setdefault(name, []).append(statement.index)
    lines = {cell.number: cell.text.split("\n") for cell in source.cells}
    return Program(tuple(statements), binders, _find_time_dependent(statements, binders), lines)


def _list_foreign(node: ast.stmt) -> set[str]:
    """Return the names that a statement imports from modules that may not be there."""
    match node:
        case ast.ImportFrom(module=module, names=names, level=level):
            known = not level and (module or "").split(".")[0] in PRESENT
            return set() if known else {each.asname or each.name for each in names}
    return set()


def _names_foreign_types(node: ast.stmt, foreign: set[str]) -> bool:
    """Whether a definition needs foreign names for its annotations, which then need not run."""
    if not foreign or not isinstance(node, (*_FUNCTIONS, ast.ClassDef)) or node.decorator_list:
        return False
    run, left = ({*analyse_effects(node, annotations_run=each).eager} for each in (True, False))
    return not foreign.isdisjoint(run - left)


def _find_time_dependent(
    statements: list[Statement], binders: dict[str, list[int]]
) -> frozenset[int]:
    """Find the statements that lazily read a name bound twice, or a name bound by such a reader."""
    names: set[str] = set()
    found: set[int] = set()
    before = -1
    while len(found) > before:
        before = len(found)
        for statement in statements:
            effects = statement.effects
            rebound = any(len(binders.get(name, ())) > 1 for name in effects.lazy)
            if rebound or not names.isdisjoint([*effects.lazy, *effects.eager]):
                found.add(statement.index)
                names |= effects.binds
    return frozenset(found)


def _iter_top_level(tree: ast.Module) -> Iterator[ast.stmt]:
    """Yield the statements of a module; of `if __name__ == "__main__"` only the `else`."""
    for node in tree.body:
        match node:
            case ast.If(test=ast.Compare(left=left, ops=[ast.Eq()], comparators=[right])) if {
                "__name__",
                "'__main__'",
            } == {ast.unparse(left), ast.unparse(right)}:
                yield from node.orelse
            case _:
                yield node


def _resolve_cross_statement_effects(statements: list[Statement]) -> None:
    """Add the effects that involve two statements: one defines an object, the other acts on it."""
    imported = {name for statement in statements for name in statement.effects.imports}
    writers = _collect_global_writes(statements)
    for statement in statements:
        effects = statement.effects
        # `np.append(…)` and `torch.add(…)` look like growth, but change no module.
        effects.changes |= effects.grows - imported
        effects.binds |= effects.changes
        for name in effects.calls & writers.keys():
            effects.binds |= writers[name]


def _collect_global_writes(statements: list[Statement]) -> dict[str, set[str]]:
    """Return the global names that each function sets when called, directly or through another."""
    functions = [s.effects for s in statements if isinstance(s.node, _FUNCTIONS)]
    writers: dict[str, set[str]] = {name: set() for f in functions for name in f.kills}
    settled = False
    while not settled:
        settled = True
        for effects in functions:
            called = [writers[name] for name in effects.lazy if name in writers]
            sets = effects.sets.union(*called)
            for name in effects.kills:
                settled = settled and sets <= writers[name]
                writers[name] |= sets
    return writers
