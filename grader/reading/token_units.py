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

from grader.reading.cells import Cell, Source, parse

MOST = 30_000
"""how many words of a submission are worth sending"""
LONGEST = 40
"""how many characters of a word"""
SMALL = 4
"""numbers up to here say which axis or sign is meant; larger ones are sizes"""
NUMBERED = "$"
"""begins the word for a name that the submission chose"""

_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
_SILENT = (ast.Import, ast.ImportFrom, ast.Pass, ast.Global, ast.Nonlocal)
_REGISTERING = {"register_buffer", "register_parameter", "add_module", "setattr"}
_OPERATORS: dict[type[ast.AST], str] = {ast.MatMult: "matmul("}


@dataclass(frozen=True, slots=True)
class Unit:
    """A function, or what stands beside functions in a class or a cell; a line for every word."""

    name: str
    cell: int | None
    words: tuple[str, ...]
    lines: tuple[int, ...]


def units(source: Source) -> tuple[Unit, ...]:
    """The units of the cells that are Python, in their order, up to `MOST` words."""
    trees = [(cell, parse(cell.text)) for cell in source.cells if cell.error is None]
    names = _Names.of([tree for _, tree in trees])
    found: list[Unit] = []
    left = MOST
    for cell, tree in trees:
        for name, nodes in _parts(tree.body, ""):
            unit = _unit(cell, name, nodes, names, left)
            left -= len(unit.words)
            if unit.words:
                found.append(unit)
            if left <= 0:
                return tuple(found)
    return tuple(found)


def _parts(body: Sequence[ast.stmt], inside: str) -> Iterator[tuple[str, list[ast.stmt]]]:
    """Each function, those of classes too, by its name; and what else there is, together."""
    loose: list[ast.stmt] = []
    for node in body:
        if isinstance(node, _FUNCTIONS):
            yield f"{inside}{node.name}", [node]
        elif isinstance(node, ast.ClassDef):
            yield from _parts(node.body, f"{inside}{node.name}.")
        else:
            loose.append(node)
    yield inside.removesuffix("."), loose


def _unit(cell: Cell, name: str, nodes: Sequence[ast.stmt], names: "_Names", most: int) -> Unit:
    speller = _Speller(names)
    for node in nodes:
        speller.spell(node)
    words = [word[:LONGEST] for word, _ in speller.said[:most]]
    lines = [line for _, line in speller.said[:most]]
    return Unit(name[: 2 * LONGEST], cell.number, tuple(words), tuple(lines))


# ---------------------------------------------------------------------------- names


@dataclass(frozen=True, slots=True)
class _Names:
    """Which names a submission chose, and what it imports under which name."""

    own: frozenset[str]
    attributes: frozenset[str]
    imported: dict[str, str]
    """the last part of what is imported: `functional` for `F`"""

    @classmethod
    def of(cls, trees: Iterable[ast.Module]) -> "_Names":
        """Gather the names of all cells."""
        nodes = [node for tree in trees for node in ast.walk(tree)]
        imported: dict[str, str] = {}
        for node in nodes:
            if isinstance(node, (ast.Import, ast.ImportFrom)):
                imported |= {_local(alias): alias.name.rpartition(".")[2] for alias in node.names}
        own = {name for node in nodes for name in _chosen(node)}
        attributes = {name for node in nodes for name in _attributes(node) if name[:2] != "__"}
        return cls(frozenset(own) - imported.keys(), frozenset(attributes), imported)


def _local(alias: ast.alias) -> str:
    return alias.asname or alias.name.partition(".")[0]


def _chosen(node: ast.AST) -> Iterator[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store()) | ast.arg(arg=name) | ast.ClassDef(name=name):
            yield name
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name):
            yield name
        case ast.ExceptHandler(name=str(name)):
            yield name


def _attributes(node: ast.AST) -> Iterator[str]:
    """Attributes that a submission sets, and what it defines in classes."""
    match node:
        case ast.Attribute(attr=name, ctx=ast.Store()):
            yield name
        case ast.ClassDef(body=body):
            yield from (each.name for each in body if isinstance(each, _FUNCTIONS))
        case ast.Call(func=ast.Attribute(attr=how), args=[ast.Constant(value=str(name)), *_]):
            if how in _REGISTERING:
                yield name


# ---------------------------------------------------------------------------- spelling


@dataclass(slots=True)
class _Speller:
    """Spells one unit; names are numbered in the order in which they appear in it."""

    names: _Names
    said: list[tuple[str, int]] = field(default_factory=list)
    numbers: dict[str, int] = field(default_factory=dict)
    line: int = 1

    def say(self, word: str) -> None:
        self.said.append((word, self.line))

    def number(self, name: str) -> None:
        self.say(f"{NUMBERED}{self.numbers.setdefault(name, len(self.numbers))}")

    def spell(self, node: ast.AST | None) -> None:
        """Say the words of a node and of all below it."""
        if node is None or isinstance(node, _SILENT) or _is_talk(node):
            return
        self.line = getattr(node, "lineno", self.line)
        match node:
            case ast.Name(id=name):
                self.name(name)
            case ast.Attribute():
                self.attribute(node)
            case ast.Constant(value=value):
                self.say(_literal(value))
            case ast.JoinedStr():
                self.say("str")
            case ast.Call():
                self.call(node)
            case ast.expr():
                self.expression(node)
            case _:
                self.statement(node)

    def all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            self.spell(node)

    def name(self, name: str) -> None:
        if name in self.names.own:
            self.number(name)
        else:
            self.say(self.names.imported.get(name, name))

    def attribute(self, node: ast.Attribute) -> None:
        """`nn.Linear` is `Linear`, `self.heads` a name that was chosen, `x.shape` said of x."""
        if node.attr in self.names.attributes:
            self.number(f".{node.attr}")
        else:
            self.say(node.attr)
        if not self.is_module(node.value) and not self.is_self(node.value):
            self.spell(node.value)

    def call(self, node: ast.Call) -> None:
        """What is called, then what it gets: the object before the dot counts as an argument."""
        match node.func:
            case ast.Attribute(value=value, attr=attr) if attr not in self.names.attributes:
                self.say(f"{attr}(")
                if not self.is_module(value):
                    self.spell(value)
            case ast.Name(id=name) if name not in self.names.own:
                self.say(f"{self.names.imported.get(name, name)}(")
            case _:
                self.say("call(")
                self.spell(node.func)
        self.all(node.args)
        self.all(keyword.value for keyword in node.keywords)

    def expression(self, node: ast.expr) -> None:
        match node:
            case ast.Tuple(elts=elements):
                self.all(elements)
            case ast.UnaryOp(op=ast.USub(), operand=ast.Constant(value=int() | float() as value)):
                self.say(_literal(-value))
            case ast.BinOp(left=left, op=operator, right=right):
                self.operation(operator, left, right)
            case ast.NamedExpr(target=target, value=value):
                self.assignment([target], value)
            case ast.Compare(left=left, ops=operators, comparators=others):
                for relation in operators:
                    self.say(type(relation).__name__)
                self.all([left, *others])
            case _:
                self.say(type(node).__name__)
                self.all(_children(node))

    def operation(self, operator: ast.operator, left: ast.AST, right: ast.AST) -> None:
        self.say(_OPERATORS.get(type(operator), type(operator).__name__))
        self.all((left, right))

    def assignment(self, targets: Sequence[ast.AST], value: ast.AST) -> None:
        self.say("=")
        self.all([*targets, value])

    def statement(self, node: ast.AST) -> None:
        match node:
            case ast.Assign(targets=targets, value=value):
                self.assignment(targets, value)
            case ast.AnnAssign(target=target, value=value):
                if value is not None:
                    self.assignment([target], value)
            case ast.AugAssign(target=target, op=operator, value=value):
                self.say("=")
                self.spell(target)
                self.operation(operator, target, value)
            case ast.Expr(value=value):
                self.spell(value)
            case ast.Assert(test=test):
                self.say("assert")
                self.spell(test)
            case ast.FunctionDef() | ast.AsyncFunctionDef():
                self.function(node)
            case ast.keyword(value=value):
                self.spell(value)
            case _:
                self.say(type(node).__name__.lower())
                self.all(_children(node))

    def function(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        given = node.args
        self.all(node.decorator_list)
        self.say("def")
        for arg in (*given.posonlyargs, *given.args, *given.kwonlyargs):
            self.number(arg.arg)
        self.all((*given.defaults, *given.kw_defaults, *node.body))

    def is_module(self, node: ast.AST) -> bool:
        """Whether this is an imported name, or something in it."""
        while isinstance(node, ast.Attribute):
            node = node.value
        return isinstance(node, ast.Name) and node.id in self.names.imported

    def is_self(self, node: ast.AST) -> bool:
        return isinstance(node, ast.Name) and node.id == "self"


def _children(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.expr_context):
            yield child


def _is_talk(node: ast.AST) -> bool:
    """Docstrings, strings that nobody uses, and prints."""
    match node:
        case ast.Expr(value=ast.Constant() | ast.JoinedStr()):
            return True
        case ast.Expr(value=ast.Call(func=ast.Name(id="print"))):
            return True
    return False


def _literal(value: object) -> str:
    """Small numbers, truth values and None mean something; texts and sizes are anybody's."""
    if isinstance(value, bool) or value is None or value is ...:
        return str(value)
    if isinstance(value, int | float):
        return f"{value:g}" if abs(value) <= SMALL else "number"
    return type(value).__name__
