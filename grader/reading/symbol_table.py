"""The symbol table of a submission: its definitions and variables by name, with positions."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.effects import (
    analyse_effects,
    collect_bound_names,
    get_root_name,
    iter_scope_nodes,
)
from headcheck.grader.reading.slicing import Program, Statement, read_program

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
DefinitionNode = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


TYPE_MAKERS = frozenset({"namedtuple", "NamedTuple", "make_dataclass", "NewType", "TypeVar"})
"""functions of the standard library that make classes"""


@dataclass(frozen=True, slots=True)
class DefinitionSite:
    """A class or function definition, and the top-level statement that contains it."""

    node: DefinitionNode
    statement: Statement

    @property
    def cell(self) -> int | None:
        """The cell that contains it."""
        return self.statement.cell


@dataclass(frozen=True, slots=True)
class Variable:
    """The last assignment of a name: its position and value."""

    cell: int | None
    line: int
    value: ast.expr | None
    is_alias: bool
    """whether the value is a lambda, a type, or an imported or defined object under another name"""

    @property
    def is_literal(self) -> bool:
        """Whether the value is a number, a string, or a collection of numbers and strings."""
        try:
            return self.value is not None and ast.literal_eval(self.value) is not ...
        except (ValueError, TypeError):
            return False


@lru_cache(maxsize=4)
def build_symbol_table(source: SubmissionSource) -> "SymbolTable":
    """Build a submission's symbol table; cached, since a large file takes long."""
    return SymbolTable(read_program(source))


class SymbolTable:
    """The names that the top level of a program defines and assigns, by first appearance."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.definitions: dict[str, list[DefinitionSite]] = {}
        self.assigned: dict[str, Variable] = {}
        self._defined_since: set[str] = set()
        for statement in program.statements:
            self._enter(statement)

    def _enter(self, statement: Statement) -> None:
        nodes = list(iter_scope_nodes([statement.node]))
        # One statement defines a name once: `try: def f… except: def f…`.
        defined = {inner.name: inner for inner in nodes if isinstance(inner, DefinitionNode)}
        for name, definition in defined.items():
            self.definitions.setdefault(name, []).append(DefinitionSite(definition, statement))
        names = [inner for inner in nodes if isinstance(inner, ast.Name)]
        stored = {name.id: name for name in names if isinstance(name.ctx, ast.Store)}
        node = statement.node
        value = node.value if isinstance(node, (ast.Assign, ast.AnnAssign)) else None
        is_alias = self._is_alias(value)
        for name, target in stored.items():
            self.assigned[name] = Variable(statement.cell, target.lineno, value, is_alias)
        others = collect_bound_names(n for n in nodes if not isinstance(n, ast.Name))
        self._defined_since = (self._defined_since - stored.keys()) | others

    def _is_alias(self, value: ast.expr | None) -> bool:
        root = get_root_name(value) if isinstance(value, (ast.Name, ast.Attribute)) else None
        is_known = root is not None and self.find_variable(root) is None
        return is_known or isinstance(value, ast.Lambda) or _makes_type(value)

    def find_variable(self, name: str) -> Variable | None:
        """Return the variable of that name; None if it is a definition, an import or an alias."""
        last = self.assigned.get(name)
        return None if last is None or last.is_alias or name in self._defined_since else last

    def is_constant(self, name: str) -> bool:
        """Whether the name is in capitals and bound only once, to a literal."""
        once = len(self.program.binders.get(name, ())) == 1
        return once and name.isupper() and self.assigned[name].is_literal

    def find_definition(self, name: str) -> DefinitionSite | None:
        """Return the last definition of `name`, which is the one in force."""
        return self.definitions[name][-1] if name in self.definitions else None

    def find_method(
        self, site: DefinitionSite, name: str
    ) -> tuple[DefinitionSite, FunctionNode] | None:
        """Return the class that defines a method for the instances of a class, and the method."""
        own = [method for method in list_methods(site.node) if method.name == name]
        if own:
            return site, own[-1]
        inherited = (self.find_method(base, name) for base in self.iter_bases(site))
        return next(filter(None, inherited), None)

    def iter_bases(self, site: DefinitionSite) -> Iterator[DefinitionSite]:
        """Yield the bases that the submission defines, as they were when the class was defined."""
        for base in site.node.bases if isinstance(site.node, ast.ClassDef) else ():
            known = self.definitions.get(base.id, []) if isinstance(base, ast.Name) else []
            yield from [p for p in known if p.statement.index < site.statement.index][-1:]

    def collect_reachable_definitions(self, name: str) -> list[DefinitionSite]:
        """Return the definition of `name` and, transitively, all definitions that it reads."""
        todo, seen, found = [name], set[str](), list[DefinitionSite]()
        if name not in self.definitions:  # `Wanted = Attention`
            bound = [s.effects for s in self.program.statements if name in s.effects.kills]
            todo = [read for effects in bound[-1:] for read in effects.eager]
        while todo:
            read = todo.pop()
            site = None if read in seen else self.find_definition(read)
            seen.add(read)
            if site is not None:
                found.append(site)
                effects = analyse_effects(site.node)
                todo += [*effects.eager, *effects.lazy]
        return found


def _makes_type(value: ast.expr | None) -> bool:
    """Whether a value is a class that a call makes, such as `namedtuple("Cache", "k v")`."""
    made_by = value.func if isinstance(value, ast.Call) else None
    name = made_by.attr if isinstance(made_by, ast.Attribute) else getattr(made_by, "id", None)
    return name in TYPE_MAKERS


def label_function(site: DefinitionSite, function: FunctionNode) -> str:
    """Name a function for a message; a method with its class."""
    if isinstance(site.node, ast.ClassDef):
        return f"`{function.name}` of `{site.node.name}`"
    return f"`{function.name}`"


def list_methods(node: DefinitionNode) -> list[FunctionNode]:
    """Return the functions written directly in a class body."""
    if not isinstance(node, ast.ClassDef):
        return []
    return [n for n in iter_scope_nodes(node.body) if isinstance(n, FunctionNode)]
