"""The definitions and variables of a submission, by name, with their places."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache

from grader.reading.cells import SubmissionSource
from grader.reading.effects import (
    analyse_effects,
    collect_bound_names,
    get_root_name,
    iter_scope_nodes,
)
from grader.reading.slicing import Program, Statement, read_program

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
DefinitionNode = ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef


@dataclass(frozen=True, slots=True)
class DefinitionSite:
    """A class or function definition, and the top-level statement it stands in."""

    node: DefinitionNode
    statement: Statement

    @property
    def cell(self) -> int | None:
        """The cell it stands in."""
        return self.statement.cell


@dataclass(frozen=True, slots=True)
class Variable:
    """Where a name is assigned last, and what its value looks like."""

    cell: int | None
    line: int
    value: ast.expr | None
    is_alias: bool
    """A lambda, or another name for something imported or defined: no value of its own."""

    @property
    def is_literal(self) -> bool:
        """A number, a string, or a collection of such."""
        try:
            return self.value is not None and ast.literal_eval(self.value) is not ...
        except (ValueError, TypeError):
            return False


@lru_cache(maxsize=4)
def build_symbol_table(source: SubmissionSource) -> "SymbolTable":
    """The book of what was read; of a large file it takes long to make."""
    return SymbolTable(read_program(source))


class SymbolTable:
    """What the top level of a program defines and assigns, in the order of first appearance."""

    def __init__(self, program: Program) -> None:
        """Enter every statement of the program."""
        self.program = program
        self.definitions: dict[str, list[DefinitionSite]] = {}
        self.assigned: dict[str, Variable] = {}
        self._defined_since: set[str] = set()
        for statement in program.statements:
            self._enter(statement)

    def _enter(self, statement: Statement) -> None:
        nodes = list(iter_scope_nodes([statement.node]))
        # One statement defines a name once: `try: def f… except: def f…`.
        defined = {node.name: node for node in nodes if isinstance(node, DefinitionNode)}
        for name, node in defined.items():
            self.definitions.setdefault(name, []).append(DefinitionSite(node, statement))
        stored = {
            n.id: n for n in nodes if isinstance(n, ast.Name) and isinstance(n.ctx, ast.Store)
        }
        plain = statement.node if isinstance(statement.node, (ast.Assign, ast.AnnAssign)) else None
        value = plain.value if plain else None
        is_alias = self._is_alias(value)
        for name, target in stored.items():
            self.assigned[name] = Variable(statement.cell, target.lineno, value, is_alias)
        others = collect_bound_names(n for n in nodes if not isinstance(n, ast.Name))
        self._defined_since = (self._defined_since - stored.keys()) | others

    def _is_alias(self, value: ast.expr | None) -> bool:
        root = get_root_name(value) if isinstance(value, (ast.Name, ast.Attribute)) else None
        return isinstance(value, ast.Lambda) or (
            root is not None and self.find_variable(root) is None
        )

    def find_variable(self, name: str) -> Variable | None:
        """The variable of that name; definitions, imports and aliases are none."""
        found = self.assigned.get(name)
        return None if found is None or found.is_alias or name in self._defined_since else found

    def is_constant(self, name: str) -> bool:
        """The name is in capitals and bound once, to a literal."""
        once = len(self.program.binders.get(name, ())) == 1
        return once and name.isupper() and self.assigned[name].is_literal

    def find_definition(self, name: str) -> DefinitionSite | None:
        """The definition of `name` that counts."""
        return self.definitions[name][-1] if name in self.definitions else None

    def find_method(
        self, site: DefinitionSite, name: str
    ) -> tuple[DefinitionSite, FunctionNode] | None:
        """The method that instances of a class get, after the class it is written in."""
        own = [method for method in list_methods(site.node) if method.name == name]
        if own:
            return site, own[-1]
        for base in self.iter_bases(site):
            if found := self.find_method(base, name):
                return found
        return None

    def iter_bases(self, site: DefinitionSite) -> Iterator[DefinitionSite]:
        """The bases that are classes of the submission, as they were when it was defined."""
        for base in site.node.bases if isinstance(site.node, ast.ClassDef) else ():
            known = self.definitions.get(base.id, []) if isinstance(base, ast.Name) else []
            yield from [p for p in known if p.statement.index < site.statement.index][-1:]

    def collect_reachable_definitions(self, name: str) -> list[DefinitionSite]:
        """The definition of `name` and all definitions that it reads, and those read."""
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


def list_methods(node: DefinitionNode) -> list[FunctionNode]:
    """The functions written directly in a class body."""
    if not isinstance(node, ast.ClassDef):
        return []
    return [n for n in iter_scope_nodes(node.body) if isinstance(n, FunctionNode)]
