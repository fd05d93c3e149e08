"""What the docstrings of a class say of it.

Comments before the first statement of `forward` often stand for a docstring.
"""

import ast
import contextlib
import io
import tokenize
from collections.abc import Iterable, Sequence

from headcheck.grader.reading.symbol_table import DefinitionSite, FunctionNode, SymbolTable

MAX_DOC = 2000
"""the most characters of docstrings in an outline"""


def read_docstrings(symbols: SymbolTable, site: DefinitionSite) -> str:
    """Return the beginning of the docstrings of a definition, its constructor and `forward`."""
    if not isinstance(site.node, ast.ClassDef):
        return _join([site.node])
    methods = (symbols.find_method(site, name) for name in ("__init__", "forward"))
    said = [_join([site.node, *(method for _, method in filter(None, methods))])]
    if forward := symbols.find_method(site, "forward"):
        owner, method = forward
        said += _list_first_comments(method, symbols.program.lines[owner.cell])
    return "\n".join(said).strip()[:MAX_DOC]


def _list_first_comments(function: FunctionNode, lines: Sequence[str]) -> list[str]:
    """Return the comments between the name of a function and its first statement."""
    body = function.body[1:] if ast.get_docstring(function) else function.body
    end = body[0].lineno - 1 if body else function.end_lineno
    text = io.StringIO("\n".join(lines[function.lineno - 1 : end]))
    comments: list[str] = []
    with contextlib.suppress(tokenize.TokenError, SyntaxError):  # the rest is cut off
        for token in tokenize.generate_tokens(text.readline):
            comments += [token.string.strip("# ")] * (token.type == tokenize.COMMENT)
    return comments


def _join(nodes: Iterable[ast.ClassDef | FunctionNode]) -> str:
    found = map(ast.get_docstring, dict.fromkeys(nodes))
    return "\n".join(filter(None, found))[:MAX_DOC]
