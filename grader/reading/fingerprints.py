"""Fingerprints of definitions that ignore layout, comments and docstrings.

Two definitions have the same fingerprint if the statements that they need are the same except for
parts without effect: blank space, comments, docstrings, `...` and `pass`. Imports are also ignored.
"""

import ast
import hashlib
from collections.abc import Iterable

from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.slicing import compute_slice


class _Remover(ast.NodeTransformer):
    """Removes the statements that do nothing."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        return None if isinstance(node.value, ast.Constant) else self.generic_visit(node)

    def visit_Pass(self, node: ast.Pass) -> None:
        return None


def fingerprint_definitions(source: SubmissionSource, names: Iterable[str]) -> list[str]:
    """Return a fingerprint for each of these names; an empty one for undefined names."""
    return [_fingerprint(source, name) for name in names]


def _fingerprint(source: SubmissionSource, name: str) -> str:
    statements = [
        # Parsed anew, since the tree is shared and a removal changes it.
        ast.dump(_Remover().visit(ast.parse(ast.unparse(each.node))))
        for each in compute_slice(source, name)
        if not isinstance(each.node, ast.Import | ast.ImportFrom)
    ]
    return hashlib.sha256("\n".join(statements).encode()).hexdigest() if statements else ""
