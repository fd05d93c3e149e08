"""Run the slices of a submission, statement by statement, and stop before each import.

An import may take long through nobody's mistake, so it is timed separately from the student's own
code: loading stops before the import, and the grader process requests it.
"""

import ast
import importlib.util
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any

from headcheck.grader.reading.slicing import Statement
from headcheck.grader.sandbox.worker.importing import TOP

Number = int | float | bool
STAR = "*"
"""stands, among names that could not be bound, for all that a star import would bring"""


@dataclass(eq=False)
class Loading:
    """The statements that remain to be run in a module, in order."""

    module: ModuleType
    steps: list[Statement]
    values: Mapping[str, Number] = field(default_factory=dict)
    """numbers that replace the values of some of the submission's variables"""
    failed: dict[str | None, BaseException] = field(default_factory=dict)
    """names that could not be bound, with the errors"""
    first_error: BaseException | None = None

    def run_to_import(self) -> str | None:
        """Run up to the next import; return the imported module's name, or None at the end."""
        while self.steps:
            name = find_unloaded(self.steps[0], self.module.__dict__["__package__"])
            if name is not None:
                return name
            self.run_next()
        return None

    def run_next(self) -> None:
        """Run the next statement."""
        step = self.steps.pop(0)
        namespace = self.module.__dict__
        try:
            exec(step.compile(), namespace)
        except (Exception, SystemExit) as error:
            self.first_error = self.first_error or error
            names = {*step.effects.binds, *[STAR] * step.effects.star}
            self.failed.update(dict.fromkeys(names, error))
        # What is computed from a variable later on is computed from its new value.
        namespace.update({n: v for n, v in self.values.items() if n in step.effects.binds})


def make_module(namespace: Mapping[str, Any], package: str) -> ModuleType:
    """Return a new module for a submission, in which these names are defined."""
    module = ModuleType(TOP)
    module.__dict__.update(namespace, __package__=package, __path__=[])
    return module


def find_unloaded(step: Statement, package: str) -> str | None:
    """Return the first module that a statement imports and that is not loaded yet, or None."""
    names = (name for node in _iter_imports(step.node) for name in _list_modules(node, package))
    unloaded = next((name for name in names if name not in sys.modules), None)
    return None if unloaded is None else unloaded.removeprefix(TOP)


def _iter_imports(node: ast.stmt) -> Iterator[ast.Import | ast.ImportFrom]:
    """Yield the imports that run whenever a statement runs."""
    tried = node.body if isinstance(node, ast.Try) else [node]
    yield from (each for each in tried if isinstance(each, ast.Import | ast.ImportFrom))


def _list_modules(node: ast.Import | ast.ImportFrom, package: str) -> Iterable[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if not node.level:
        return [node.module or ""]
    try:
        return [importlib.util.resolve_name("." * node.level + (node.module or ""), package)]
    except ImportError:  # it leads out of the package, and fails when it runs
        return []
