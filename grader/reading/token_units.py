"""Tokenise a submission so that superficial changes of a copy leave its tokens the same.

Whatever is easily changed in a copy is left out: comments, docstrings, layout, annotations,
imports, prints, messages, and the order of definitions, since each function is a unit of its own.
Names that the submission chooses become numbers. Names that it does not choose (`softmax`,
`range`) become tokens, however they are reached: `F.softmax(x)`, `torch.softmax(x)` and
`x.softmax()` give the same ones.

    y = F.softmax(x, dim=-1)    ->    = $0 softmax( $1 -1

Nothing is run, and the units are plain data for JSON.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from headcheck.grader.reading.cells import SourceCell, SubmissionSource, parse

MAX_WORDS = 30_000
"""tokens of a submission reported at most"""
MAX_WORD_LENGTH = 40
"""characters of a token at most"""
MAX_LITERAL = 4
"""numbers up to here are kept, as axes and signs; larger ones are sizes"""
NAME_PREFIX = "$"
"""prefix of the token for a name that the submission chose"""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IGNORED_NODES = (ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Nonlocal)
_REGISTERING_METHODS = {"register_buffer", "register_parameter", "add_module", "setattr"}
_OPERATORS: dict[type[ast.AST], str] = {ast.MatMult: "matmul("}


@dataclass(frozen=True, slots=True)
class Unit:
    """The tokens, with their lines, of a function or of the rest of a class or cell."""

    name: str
    cell: int | None
    words: tuple[str, ...]
    lines: tuple[int, ...]


def extract_units(source: SubmissionSource) -> tuple[Unit, ...]:
    """Return the units of the cells that are Python, in source order, up to `MAX_WORDS` tokens."""
    trees = [(cell, parse(cell.text)) for cell in source.cells if cell.error is None]
    names = _Names.from_trees([tree for _, tree in trees])
    units: list[Unit] = []
    left = MAX_WORDS
    for cell, tree in trees:
        for name, nodes in _iter_parts(tree.body, ""):
            unit = _build_unit(cell, name, nodes, names, left)
            left -= len(unit.words)
            if unit.words:
                units.append(unit)
            if left <= 0:
                return tuple(units)
    return tuple(units)


def _iter_parts(body: Sequence[ast.stmt], inside: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Yield each function and method with its qualified name, then all other statements at once."""
    loose: list[ast.stmt] = []
    for node in body:
        if isinstance(node, _FUNCTIONS):
            yield f"{inside}{node.name}", [node]
        elif isinstance(node, ast.ClassDef):
            yield from _iter_parts(node.body, f"{inside}{node.name}.")
        else:
            loose.append(node)
    yield inside.removesuffix("."), loose


def _build_unit(
    cell: SourceCell, name: str, nodes: Sequence[ast.stmt], names: "_Names", most: int
) -> Unit:
    tokeniser = _Tokeniser(names)
    tokeniser.emit_all(nodes)
    words = tuple(word[:MAX_WORD_LENGTH] for word, _ in tokeniser.tokens[:most])
    lines = tuple(line for _, line in tokeniser.tokens[:most])
    return Unit(name[: 2 * MAX_WORD_LENGTH], cell.number, words, lines)


# ---------------------------------------------------------------------------- names


@dataclass(frozen=True, slots=True)
class _Names:
    """The names that a submission chose, and the imports behind the others."""

    own: frozenset[str]
    attributes: frozenset[str]
    imported: dict[str, str]
    """last component of an import by its local name: `functional` for `F`"""

    @classmethod
    def from_trees(cls, trees: Iterable[ast.Module]) -> "_Names":
        """Collect the names of all cells."""
        nodes = [node for tree in trees for node in ast.walk(tree)]
        imported = {
            node.asname or node.name.partition(".")[0]: node.name.rpartition(".")[2]
            for node in nodes
            if isinstance(node, ast.alias)
        }
        own = {name for node in nodes for name in _iter_chosen_names(node)}
        attributes = {name for node in nodes for name in _iter_chosen_attributes(node)}
        public = frozenset(name for name in attributes if name[:2] != "__")
        return cls(frozenset(own) - imported.keys(), public, imported)


def _iter_chosen_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ClassDef(name=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name


def _iter_chosen_attributes(node: ast.AST) -> Iterator[str]:
    """Yield the attributes that a submission sets, and the methods it defines."""
    match node:
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.ClassDef(body=body):
            yield from (each.name for each in body if isinstance(each, _FUNCTIONS))
        case ast.Call(func=ast.Attribute(attr=how), args=[ast.Constant(value=str(name)), *_]):
            if how in _REGISTERING_METHODS:
                yield name


# ------------------------------------------------------------------------ tokenisation


@dataclass(slots=True)
class _Tokeniser:
    """Tokenises one unit; names are numbered in the order of their first appearance in it."""

    names: _Names
    tokens: list[tuple[str, int]] = field(default_factory=list)
    name_numbers: dict[str, int] = field(default_factory=dict)
    line: int = 1

    def emit(self, word: str) -> None:
        self.tokens.append((word, self.line))

    def emit_numbered(self, name: str) -> None:
        self.emit(f"{NAME_PREFIX}{self.name_numbers.setdefault(name, len(self.name_numbers))}")

    def emit_node(self, node: ast.AST | None) -> None:
        """Emit the tokens of a node and of all its descendants."""
        if node is None or isinstance(node, _IGNORED_NODES) or _is_ignorable(node):
            return
        self.line = getattr(node, "lineno", self.line)
        match node:
            case ast.Name(id=name):
                self.emit_name(name)
            case ast.Attribute():
                self.emit_attribute(node)
            case ast.Constant(value=value):
                self.emit(_format_literal(value))
            case ast.JoinedStr():
                self.emit("str")
            case ast.Call():
                self.emit_call(node)
            case ast.expr():
                self.emit_expression(node)
            case _:
                self.emit_statement(node)

    def emit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            self.emit_node(node)

    def emit_name(self, name: str) -> None:
        if name in self.names.own:
            self.emit_numbered(name)
        else:
            self.emit(self.names.imported.get(name, name))

    def emit_attribute(self, node: ast.Attribute) -> None:
        """Emit `Linear` for `nn.Linear`, a number for `self.heads`, `shape` and x for `x.shape`."""
        if node.attr in self.names.attributes:
            self.emit_numbered(f".{node.attr}")
        else:
            self.emit(node.attr)
        is_self = isinstance(node.value, ast.Name) and node.value.id == "self"
        if not is_self and not self.is_module(node.value):
            self.emit_node(node.value)

    def emit_call(self, node: ast.Call) -> None:
        """Emit the callee, then its arguments, of which the object before the dot is one."""
        match node.func:
            case ast.Attribute(value=value, attr=attr) if attr not in self.names.attributes:
                self.emit(f"{attr}(")
                if not self.is_module(value):
                    self.emit_node(value)
            case ast.Name(id=name) if name not in self.names.own:
                self.emit(f"{self.names.imported.get(name, name)}(")
            case _:
                self.emit("call(")
                self.emit_node(node.func)
        self.emit_all(node.args)
        self.emit_all(keyword.value for keyword in node.keywords)

    def emit_expression(self, node: ast.expr) -> None:
        match node:
            case ast.Tuple(elts=elements):
                self.emit_all(elements)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                self.emit(_format_literal(-value))
            case ast.BinOp(left=left, op=operator, right=right):
                self.emit_operation(operator, left, right)
            case ast.NamedExpr(target=target, value=value):
                self.emit_assignment([target], value)
            case ast.Compare(left=left, ops=operators, comparators=others):
                for relation in operators:
                    self.emit(type(relation).__name__)
                self.emit_all([left, *others])
            case _:
                self.emit(type(node).__name__)
                self.emit_all(_iter_children(node))

    def emit_operation(self, operator: ast.operator, left: ast.AST, right: ast.AST) -> None:
        self.emit(_OPERATORS.get(type(operator), type(operator).__name__))
        self.emit_all((left, right))

    def emit_assignment(self, targets: Sequence[ast.AST], value: ast.AST) -> None:
        self.emit("=")
        self.emit_all([*targets, value])

    def emit_statement(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self.emit_assignment(targets, value)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.emit_assignment([target], value)
            case ast.AugAssign(target=target, op=operator, value=value):
                self.emit("=")
                self.emit_node(target)
                self.emit_operation(operator, target, value)
            case ast.Expr(value=value):
                self.emit_node(value)
            case ast.Assert(test=test):
                self.emit("assert")
                self.emit_node(test)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.emit_function(node)
            case ast.keyword(value=value):
                self.emit_node(value)
            case _:
                self.emit(type(node).__name__.lower())
                self.emit_all(_iter_children(node))

    def emit_function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        args = node.args
        self.emit_all(node.decorator_list)
        self.emit("def")
        for arg in (*args.posonlyargs, *args.args, *args.kwonlyargs):
            self.emit_numbered(arg.arg)
        self.emit_all((*args.defaults, *args.kw_defaults, *node.body))

    def is_module(self, node: ast.AST) -> bool:
        """Whether this is an imported name, or an attribute of one."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.names.imported


def _iter_children(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context):
            yield child


def _is_ignorable(node: ast.AST) -> bool:
    """Whether it is a docstring, an unused string, or a print."""
    match node:
        case ast.Expr(value=ast.Constant() | ast.JoinedStr()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
    return False


def _format_literal(value: object) -> str:
    """Return small numbers, truth values and None as they are, other literals as their type."""
    if isinstance(value, bool) or value is None or value is ...:
        return str(value)
    if isinstance(value, int | float):
        return f"{value:g}" if abs(value) <= MAX_LITERAL else "number"
    return type(value).__name__
