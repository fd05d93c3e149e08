"""Fingerprints of definitions and of whole submissions, which ignore layout and comments.

Two definitions have the same fingerprint if the statements that they need are the same except for
parts without effect: blank space, comments, docstrings, `...` and `pass`. Imports are also ignored.
"""

import ast
import hashlib
import io
import tokenize
from collections.abc import Iterable

from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.slicing import compute_slice

LAYOUT = {tokenize.NL, tokenize.COMMENT}
MAX_CHARACTERS = 1 << 20
"""longer code gets no digest, because computing it would take longer than it saves"""
OPENING, CLOSING = set("([{"), set(")]}")


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


def digest_code(source: SubmissionSource) -> str:
    """Return a digest of all tokens and places; "" if a cell is not Python or the code is too long.

    Comments after and between statements do not count. Those before the first statement of a
    function do, which may say what its arguments mean. Those within brackets do, because a message
    may quote the expression that contains them.
    """
    if sum(len(cell.text) for cell in source.cells) > MAX_CHARACTERS:
        return ""
    digest = hashlib.sha256()
    for cell in source.cells:
        if cell.error is not None:
            return ""
        digest.update(repr(cell.number).encode())
        try:
            _add_tokens(digest, cell.text)
        except (tokenize.TokenError, SyntaxError):
            return ""
    return digest.hexdigest()


def _add_tokens(digest: "hashlib._Hash", text: str) -> None:
    depth, in_head, begun = 0, False, True
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.string == "def":
            in_head, begun = True, False
        elif in_head:
            in_head = depth > 0 or token.string != ":"
        elif token.type in (tokenize.NAME, tokenize.OP, tokenize.NUMBER):
            begun = True
        if token.type == tokenize.OP:
            depth += (token.string in OPENING) - (token.string in CLOSING)
        if depth or not begun or token.type not in LAYOUT:
            # The end of a line stands behind a comment.
            place = None if token.type == tokenize.NEWLINE else token.start
            digest.update(repr((token.type, token.string, place)).encode())
