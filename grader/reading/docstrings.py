"""What the docstrings of a class say of it: its own, and those of the functions that it calls.

Comments before the first statement of `forward` often stand for a docstring.
"""

import ast
import contextlib
import io
import tokenize
from collections.abc import Iterable, Iterator, Sequence, Set

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


def read_called_docstrings(symbols: SymbolTable, site: DefinitionSite) -> str:
    """Return the docstrings of what a class calls with arguments that it does not compute.

    `make_mask(tokens, window - 1)` says nothing of what the class means by its window.
    """
    nodes = _list_nodes(symbols, site)
    computed = set(_iter_computed(nodes))
    called = _iter_called(symbols, site, nodes)
    return _join(f for call, f in called if not _gives_computed(call, computed))


def _list_nodes(symbols: SymbolTable, site: DefinitionSite) -> list[ast.AST]:
    """Return what the constructor and `forward` of a class consist of."""
    if not isinstance(site.node, ast.ClassDef):
        return []
    found = (symbols.find_method(site, name) for name in ("__init__", "forward"))
    return [node for _, method in filter(None, found) for node in ast.walk(method)]


def _gives_computed(call: ast.Call, computed: Set[str]) -> bool:
    given = [*call.args, *(keyword.value for keyword in call.keywords)]
    return any(_is_computed(each) or ast.unparse(each) in computed for each in given)


def _join(nodes: Iterable[ast.ClassDef | FunctionNode]) -> str:
    found = map(ast.get_docstring, dict.fromkeys(nodes))
    return "\n".join(filter(None, found))[:MAX_DOC]


def _iter_called(
    symbols: SymbolTable, site: DefinitionSite, nodes: Iterable[ast.AST]
) -> Iterator[tuple[ast.Call, FunctionNode]]:
    """Yield the calls of the submission's functions, and of methods of the class."""
    for call in (node for node in nodes if isinstance(node, ast.Call)):
        match call.func:
            case ast.Name(id=name):
                called = symbols.find_definition(name)
                function = None if called is None else called.node
            case ast.Attribute(value=ast.Name(), attr=name):
                own = symbols.find_method(site, name)
                function = None if own is None else own[1]
            case _:
                continue
        if isinstance(function, FunctionNode):
            yield call, function


def _iter_computed(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the names and attributes that get a computed value, as they are written."""
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value) if _is_computed(value):
                yield from map(ast.unparse, targets)
            case ast.AnnAssign(target=target, value=value) if value and _is_computed(value):
                yield ast.unparse(target)
            case ast.AugAssign(target=target):
                yield ast.unparse(target)


def _is_computed(value: ast.expr) -> bool:
    """Whether an operator is part of an expression; the sign of a number is none."""
    return any(
        isinstance(node, ast.BinOp)
        or (isinstance(node, ast.UnaryOp) and not isinstance(node.operand, ast.Constant))
        for node in ast.walk(value)
    )
