"""What code says of the axes of its tokens: in a docstring, or by the names of their sizes."""

import ast
import re
from collections.abc import Iterator

from headcheck.grader.reading.docstrings import read_docstrings
from headcheck.grader.reading.symbol_table import DefinitionSite, FunctionNode, SymbolTable

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


def quote_batch_first(symbols: SymbolTable, site: DefinitionSite) -> str:
    """Return what says that the first axis of its tokens is the batch; "" if nothing does."""
    said, found = read_docstrings(symbols, site), symbols.find_method(site, "forward")
    if OTHERWISE.search(ast.unparse(site.node)):
        return ""
    sizes = () if found is None else _iter_sizes(found[1])
    named = (ast.unparse(each) for each in sizes if NAMES.fullmatch(_list_names(each)))
    written = WRITTEN.search(said)
    return " ".join(written.group().split()) if written else next(named, "")


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
