"""A submission as words that stay the same when it is disguised: read, never run.

What a copy is changed in costs nothing and is left out here: comments, docstrings, layout,
annotations, imports, prints, messages, and the order of definitions, since each function is a unit
of its own. Names that the submission chooses become numbers; what they were is not kept. Names that
it did not choose (`softmax`, `range`) are the words, however they are reached: `F.softmax(x)`,
`torch.softmax(x)` and `x.softmax()` read the same.

    y = F.softmax(x, dim=-1)    ->    = $0 softmax( $1 -1

Plain data that JSON can carry.
"""

import ast
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from grader.reading.cells import SourceCell, SubmissionSource, parse

MAX_WORDS = 30_000
"""how many words of a submission are worth sending"""
MAX_WORD_LENGTH = 40
"""how many characters of a word"""
MAX_LITERAL = 4
"""numbers up to here say which axis or sign is meant; larger ones are sizes"""
NAME_PREFIX = "$"
"""begins the word for a name that the submission chose"""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_IGNORED_NODES = (ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Nonlocal)
_REGISTERING_METHODS = {"register_buffer", "register_parameter", "add_module", "setattr"}
_OPERATORS: dict[type[ast.AST], str] = {ast.MatMult: "matmul("}


@dataclass(frozen=True, slots=True)
class Unit:
    """A function, or what stands beside functions in a class or a cell; a line for every word."""

    name: str
    cell: int | None
    words: tuple[str, ...]
    lines: tuple[int, ...]


def extract_units(source: SubmissionSource) -> tuple[Unit, ...]:
    """The units of the cells that are Python, in their order, up to `MOST` words."""
    trees = [(cell, parse(cell.text)) for cell in source.cells if cell.error is None]
    names = _Names.from_trees([tree for _, tree in trees])
    found: list[Unit] = []
    left = MAX_WORDS
    for cell, tree in trees:
        for name, nodes in _iter_parts(tree.body, ""):
            unit = _build_unit(cell, name, nodes, names, left)
            left -= len(unit.words)
            if unit.words:
                found.append(unit)
            if left <= 0:
                return tuple(found)
    return tuple(found)


def _iter_parts(body: Sequence[ast.stmt], inside: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Each function, those of classes too, by its name; and what else there is, together."""
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
    for node in nodes:
        tokeniser.emit_node(node)
    words = [word[:MAX_WORD_LENGTH] for word, _ in tokeniser.tokens[:most]]
    lines = [line for _, line in tokeniser.tokens[:most]]
    return Unit(name[: 2 * MAX_WORD_LENGTH], cell.number, tuple(words), tuple(lines))


# ---------------------------------------------------------------------------- names


@dataclass(frozen=True, slots=True)
class _Names:
    """Which names a submission chose, and what it imports under which name."""

    own: frozenset[str]
    attributes: frozenset[str]
    imported: dict[str, str]
    """the last part of what is imported: `functional` for `F`"""

    @classmethod
    def from_trees(cls, trees: Iterable[ast.Module]) -> "_Names":
        """Gather the names of all cells."""
        nodes = [node for tree in trees for node in ast.walk(tree)]
        imported: dict[str, str] = {}
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imported |= {
                    _get_local_name(alias): alias.name.rpartition(".")[2] for alias in node.names
                }
        own = {name for node in nodes for name in _iter_chosen_names(node)}
        attributes = {
            name for node in nodes for name in _iter_chosen_attributes(node) if name[:2] != "__"
        }
        return cls(frozenset(own) - imported.keys(), frozenset(attributes), imported)


def _get_local_name(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _iter_chosen_names(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ClassDef(name=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name


def _iter_chosen_attributes(node: ast.AST) -> Iterator[str]:
    """Attributes that a submission sets, and what it defines in classes."""
    match node:
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.ClassDef(body=body):
            yield from (each.name for each in body if isinstance(each, _FUNCTIONS))
        case ast.Call(func=ast.Attribute(attr=how), args=[ast.Constant(value=str(name)), *_]):
            if how in _REGISTERING_METHODS:
                yield name


# ---------------------------------------------------------------------------- spelling


@dataclass(slots=True)
class _Tokeniser:
    """Spells one unit; names are numbered in the order in which they appear in it."""

    names: _Names
    tokens: list[tuple[str, int]] = field(default_factory=list)
    name_numbers: dict[str, int] = field(default_factory=dict)
    line: int = 1

    def emit(self, word: str) -> None:
        self.tokens.append((word, self.line))

    def emit_numbered(self, name: str) -> None:
        self.emit(f"{NAME_PREFIX}{self.name_numbers.setdefault(name, len(self.name_numbers))}")

    def emit_node(self, node: ast.AST | None) -> None:
        """Say the words of a node and of all below it."""
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
        """`nn.Linear` is `Linear`, `self.heads` a name that was chosen, `x.shape` said of x."""
        if node.attr in self.names.attributes:
            self.emit_numbered(f".{node.attr}")
        else:
            self.emit(node.attr)
        if not self.is_module(node.value) and not self.is_self(node.value):
            self.emit_node(node.value)

    def emit_call(self, node: ast.Call) -> None:
        """What is called, then what it gets: the object before the dot counts as an argument."""
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
        given = node.args
        self.emit_all(node.decorator_list)
        self.emit("def")
        for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            self.emit_numbered(arg.arg)
        self.emit_all((*given.defaults, *given.kw_defaults, *node.body))

    def is_module(self, node: ast.AST) -> bool:
        """Whether this is an imported name, or something in it."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.names.imported

    def is_self(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == "self"


def _iter_children(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context):
            yield child


def _is_ignorable(node: ast.AST) -> bool:
    """Docstrings, strings that nobody uses, and prints."""
    match node:
        case ast.Expr(value=ast.Constant() | ast.JoinedStr()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
    return False


def _format_literal(value: object) -> str:
    """Small numbers, truth values and None mean something; texts and sizes are anybody's."""
    if isinstance(value, bool) or value is None or value is ...:
        return str(value)
    if isinstance(value, int | float):
        return f"{value:g}" if abs(value) <= MAX_LITERAL else "number"
    return type(value).__name__
