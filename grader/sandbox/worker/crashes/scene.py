"""Where a submission crashed: the error, the failed instruction, and its variables.

Python knows the source columns of every instruction, so the call or operator that failed within a
line is known.
"""

import ast
import functools
import itertools
import linecache
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from types import CodeType, FrameType, TracebackType
from typing import Any

from torch import Tensor, nn

from headcheck.grader.reading.slicing import Position
from headcheck.grader.sandbox.sentences import Finding
from headcheck.grader.sandbox.worker.crashes.values import UNKNOWN, Values

MAX_WRITTEN = 60
"""the most characters of an expression that are quoted"""
MAX_SOURCE = 1 << 20
DISPATCHERS = ("headcheck", "torch.overrides", "torch.utils._python_dispatch")
"""modules whose frames only pass an operation on"""
LIBRARIES = ("torch", "einops", "math", "numpy", "headcheck", "contextlib", "functools")
"""packages whose code, called by the submission, does only what the submission requested"""
FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
LineLocator = Callable[[str | None, int | None], Position | None]


@dataclass(frozen=True)
class Scene:
    """One crash, as far as it can be analysed without running any code again."""

    kind: type[BaseException]
    text: str
    node: ast.AST | None
    """the node that failed; None if none of the submission's code was running"""
    tree: "SourceTree"
    values: Values
    frames: tuple[FrameType, ...]
    """the frames of the submission, the innermost last"""
    raiser: FrameType | None
    """the frame that raised, whether or not it is the submission's"""
    direct: bool
    """whether the submission's own instruction raised, and not a function that it called"""

    def write(self, node: ast.AST | None) -> str:
        """Quote an expression: `scores`."""
        text = self.tree.get_text(node)
        short = text if len(text) <= MAX_WRITTEN else f"{text[: MAX_WRITTEN - 1]}…"
        return f"`{short.replace('`', chr(39))}`"

    def find(self, node: ast.AST | None) -> Any:
        """Return the value of an expression, or UNKNOWN."""
        return self.values.find(node)

    def find_tensor(self, node: ast.AST | None) -> Tensor | None:
        """Return the tensor that is the value of an expression, perhaps without its numbers."""
        return self.values.find_tensor(node)

    @property
    def function(self) -> FunctionNode | None:
        """The function in whose body the failed instruction is."""
        return next(self.tree.iter_around(self.node, FunctionNode), None)

    @property
    def instance(self) -> Any:
        """The object whose method failed, or UNKNOWN."""
        function = self.function
        if function is None or not function.args.args:
            return UNKNOWN
        found = self.values.find_name(function.args.args[0].arg)
        return found if isinstance(found, nn.Module) else UNKNOWN

    @property
    def callee(self) -> Any:
        """The object that the failed instruction called, or UNKNOWN."""
        return self.find(self.node.func) if isinstance(self.node, ast.Call) else UNKNOWN

    def is_argument(self, node: ast.AST | None) -> bool:
        """Whether an expression is an argument of the function with its original value."""
        function = self.function
        if function is None or not isinstance(node, ast.Name):
            return False
        stored = (n for n in ast.walk(function) if isinstance(n, ast.Name))
        given = {each.arg for each in function.args.args[1:]}
        rebound = {n.id for n in stored if isinstance(n.ctx, ast.Store)}
        return node.id in given - rebound

    def list_constructor_arguments(self, instance: object) -> list[str]:
        """Return the names of the parameters of an object's constructor."""
        code = getattr(vars(type(instance)).get("__init__"), "__code__", None)
        count = code.co_argcount + code.co_kwonlyargcount if isinstance(code, CodeType) else 0
        return list(code.co_varnames[1:count]) if isinstance(code, CodeType) else []


Explainer = Callable[[Scene, re.Match[str]], Finding | None]
Patterns = Mapping[type[BaseException], Mapping[str, Explainer]]
"""what explains a crash, by the type of the exception and a pattern for its text"""


@dataclass(frozen=True)
class SourceTree:
    """The syntax tree of a file, with the parent of each node."""

    text: str
    nodes: tuple[ast.AST, ...]
    parents: dict[ast.AST, ast.AST]

    def get_text(self, node: ast.AST | None) -> str:
        """Return the source of a node on one line."""
        found = None if node is None else ast.get_source_segment(self.text, node)
        return " ".join((found or "").split())

    def iter_around(self, node: ast.AST | None, kinds: Any) -> Iterator[Any]:
        """Yield the nodes of these kinds that contain a node, the innermost first."""
        while node is not None:
            node = self.parents.get(node)
            if isinstance(node, kinds):
                yield node

    def find(self, span: tuple[int, int, int, int]) -> ast.AST | None:
        """Return the node at these lines and columns, preferably an expression."""
        line, end_line, column, end_column = span
        placed = (n for n in self.nodes if isinstance(n, ast.expr | ast.stmt))
        found = [n for n in placed if (n.end_lineno, n.end_col_offset) == (end_line, end_column)]
        exact = [n for n in found if (n.lineno, n.col_offset) == (line, column)]
        if exact:
            return next((n for n in reversed(exact) if isinstance(n, ast.expr)), exact[-1])
        # A method that is called on a line of its own starts with its name there.
        return next((n for n in found if _get_method_start(n) == (line, column)), None)


def _get_method_start(node: ast.AST) -> tuple[int, int] | None:
    match node:
        case ast.Call(func=ast.Attribute(attr=name, end_lineno=int(line), end_col_offset=int(end))):
            return line, end - len(name.encode())
    return None


@functools.lru_cache(maxsize=16)
def _read_tree(text: str) -> SourceTree:
    """Parse a file; return None if it is not Python or too long."""
    try:
        nodes = tuple(ast.walk(ast.parse(text))) if len(text) < MAX_SOURCE else ()
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        nodes = ()
    parents = {child: node for node in nodes for child in ast.iter_child_nodes(node)}
    return SourceTree(text, nodes, parents)


def observe(error: BaseException, text: str, locate_line: LineLocator) -> Scene | None:
    """Return where an error arose; None if the submission or a file beside it raised it itself."""
    entries = []
    trace = error.__traceback__
    while trace is not None:
        entries.append(trace)
        trace = trace.tb_next
    own = [e for e in entries if locate_line(e.tb_frame.f_code.co_filename, e.tb_lineno)]
    below = entries[entries.index(own[-1]) + 1 :] if own else entries
    if not all(_is_of(LIBRARIES, entry.tb_frame) for entry in below):
        return None
    kind, raiser = type(error), entries[-1].tb_frame if entries else None
    if not own:
        return Scene(kind, text, None, _read_tree(""), Values(()), (), raiser, direct=False)
    tree = _read_tree("".join(linecache.getlines(own[-1].tb_frame.f_code.co_filename)))
    node = _find_node(own[-1], tree)
    if node is None or isinstance(node, ast.Raise | ast.Assert):
        return None
    frames = tuple(entry.tb_frame for entry in own)
    direct = all(_is_of(DISPATCHERS, entry.tb_frame) for entry in below)
    return Scene(kind, text, node, tree, Values(_list_scopes(frames)), frames, raiser, direct)


def _is_of(packages: tuple[str, ...], frame: FrameType) -> bool:
    """Whether the code of a frame belongs to one of these packages or modules."""
    name = frame.f_globals.get("__name__")
    return isinstance(name, str) and f"{name}.".startswith(tuple(f"{each}." for each in packages))


def _find_node(entry: TracebackType, tree: SourceTree) -> ast.AST | None:
    positions = entry.tb_frame.f_code.co_positions()
    span = next(itertools.islice(positions, entry.tb_lasti // 2, None), (None,) * 4)
    line, end_line, column, end_column = span
    if line is None or end_line is None or column is None or end_column is None:
        return None
    return tree.find((line, end_line, column, end_column))


def _list_scopes(frames: tuple[FrameType, ...]) -> list[dict[str, Any]]:
    """Return the innermost frame's variables; for a comprehension, also the enclosing frame's."""
    inner = frames[-1]
    scopes = [inner.f_locals]
    if inner.f_code.co_name.startswith("<") and len(frames) > 1:
        scopes.append(frames[-2].f_locals)
    return [*scopes, inner.f_globals]
