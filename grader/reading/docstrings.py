"""What the docstrings of a class say of it, and what they or names of sizes say of its axes.

Comments before the first statement of `forward` often stand for a docstring.
"""

import ast
import contextlib
import io
import re
import tokenize
from collections.abc import Iterable, Iterator, Sequence

from headcheck.grader.reading.symbol_table import DefinitionSite, FunctionNode, SymbolTable

MAX_DOC = 2000
"""the most characters of docstrings in an outline"""
BATCH = r"(b|bsz?|batch\w*|n_?batch|num_batch\w*)"
TOKENS = (
    r"(t|l|s|n|seq\w*|len\w*|time|n_?tok\w*|num_tok\w*|tokens?|[a-z]+_len(gth)?|frames|patches)"
)
WIDTH = rf"(?!{TOKENS}\s*[,)\]])\w+"
WRITTEN = re.compile(rf"[(\[]\s*{BATCH}\s*,\s*{TOKENS}\s*,\s*{WIDTH}\s*[)\]]", re.IGNORECASE)
"""how a docstring writes axes of which the first is the batch, and the last no axis of weights"""
OTHERWISE = re.compile(
    rf"[(\[]\s*{TOKENS}\s*,\s*{BATCH}\b|batch_first|\b(time|seq\w*) x batch\b|\bfirst axis\b",
    re.IGNORECASE,
)
"""how code writes that another axis comes first, or may"""
NAMES = re.compile(rf"{BATCH} {TOKENS} .*", re.IGNORECASE)
"""the names of sizes, of which the first is that of the batch"""
OWN_TOKEN = re.compile(
    r"\b(itself|self|own|current|query)\b[^,]{0,20}\b(includ|inclusive|counted)"
    r"|\binclud\w+ (it\w*|the (token|query)( itself)?|\w+ own|the current)\b"
    r"|window\w*`* ?[-−] ?1\b",
    re.IGNORECASE,
)
"""words that say that the tokens of a window include the one that looks"""
COMPUTED = re.compile(r"window\w* [-+] \d")
"""how code writes that its window is another one than that of a function that it calls"""


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


def quote_batch_first(symbols: SymbolTable, site: DefinitionSite) -> str:
    """Return what says that the first axis of its tokens is the batch; "" if nothing does."""
    said, found = read_docstrings(symbols, site), symbols.find_method(site, "forward")
    if OTHERWISE.search(ast.unparse(site.node)):
        return ""
    sizes = () if found is None else _iter_sizes(found[1])
    named = (ast.unparse(each) for each in sizes if NAMES.fullmatch(_list_names(each)))
    written = WRITTEN.search(said)
    return " ".join(written.group().split()) if written else next(named, "")


def quote_own_token(symbols: SymbolTable, site: DefinitionSite) -> str:
    """Return what says that a window counts the token itself; "" if nothing does.

    The functions that a class calls say so, too, if it hands its window on as it is.
    """
    calls = (node.func for node in ast.walk(site.node) if isinstance(node, ast.Call))
    named = (symbols.find_definition(f.id) for f in calls if isinstance(f, ast.Name))
    called = [f.node for f in named if f and isinstance(f.node, FunctionNode)]
    said = read_docstrings(symbols, site)
    if not COMPUTED.search(ast.unparse(site.node)):
        said = f"{said}\n\n{_join(called)}"
    parts = (" ".join(part.split()) for part in re.split(r"[.;](?=\s|$)|\n\s*\n", said))
    return next(filter(OWN_TOKEN.search, parts), "")


def _iter_sizes(forward: FunctionNode) -> Iterator[ast.Assign]:
    """Yield the statements that name the sizes of the first argument as it was given."""
    if len(forward.args.args) < 2:
        return
    tokens = forward.args.args[1].arg
    for statement in forward.body:
        match statement:
            case ast.Assign(targets=[ast.Tuple()], value=value) if ast.unparse(value) in (
                f"{tokens}.shape",
                f"{tokens}.size()",
            ):
                yield statement
        stored = (n for n in ast.walk(statement) if isinstance(n, ast.Name))
        if any(n.id == tokens and isinstance(n.ctx, ast.Store) for n in stored):
            return


def _list_names(statement: ast.Assign) -> str:
    """Return the names that a statement gives to sizes, with blanks between them."""
    return " ".join(map(ast.unparse, getattr(statement.targets[0], "elts", ())))
