"""Static effects of a statement on the names of its module.

Scoping follows the language reference. A function's locals are all names bound anywhere in it;
a class body's names are visible to the body itself and to no function inside it; the first
iterable of a comprehension is evaluated outside of it, and a walrus in one binds outside of it.
Function bodies and lambdas are *lazy*, everything else is *eager*. Annotations are eager unless
they are strings, belong to a local variable, or `from __future__ import annotations` is in force.

The visitor follows the order of evaluation within a statement and tracks the names that are
certainly bound so far, so that the `i` of `for i in …: use(i)` does not count as read from outside.
"""

import __future__

import ast
import functools
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Literal

_COMPREHENSIONS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)
_GROWING_METHODS = frozenset({"add", "append", "extend", "insert", "setdefault", "update"})


@dataclass(slots=True)
class Effects:
    """Effects of a piece of code on the names of its module, with the first line of each read."""

    eager: dict[str, int] = field(default_factory=dict)
    lazy: dict[str, int] = field(default_factory=dict)
    binds: set[str] = field(default_factory=set)
    kills: set[str] = field(default_factory=set)
    changes: set[str] = field(default_factory=set)
    imports: set[str] = field(default_factory=set)
    grows: set[str] = field(default_factory=set)
    calls: set[str] = field(default_factory=set)
    sets: set[str] = field(default_factory=set)
    """names that a function in the code declares global and binds when it is called"""
    runs_code: bool = False
    """whether the code calls something or applies a decorator, and so may run functions that it
    reads"""
    star: bool = False
    future: int = 0


@functools.lru_cache(maxsize=512)  # every warning needs them again; nobody changes a result
def analyse_effects(node: ast.AST, annotations_run: bool = True) -> Effects:
    """Return the effects of a statement or expression at the top level of a module."""
    visitor = _Visitor(annotations_run)
    visitor.visit(node)
    visitor.effects.kills = visitor.bound
    return visitor.effects


def iter_scope_nodes(nodes: Iterable[ast.AST]) -> Iterator[ast.AST]:
    """Yield every node of the same scope, in order, without entering inner scopes."""
    todo = list(nodes)[::-1]
    while todo:
        node = todo.pop()
        yield node
        if isinstance(node, ast.ClassDef):
            inside: list[ast.AST] = [*node.decorator_list, *node.bases, *node.keywords]
        elif isinstance(node, _FUNCTIONS):
            decorators = [] if isinstance(node, ast.Lambda) else node.decorator_list
            inside = [*decorators, *node.args.defaults, *filter(None, node.args.kw_defaults)]
        elif isinstance(node, _COMPREHENSIONS):  # a walrus in one binds outside of it
            inside = [n.target for n in ast.walk(node) if isinstance(n, ast.NamedExpr)]
        else:
            inside = list(ast.iter_child_nodes(node))
        todo += inside[::-1]


def collect_bound_names(nodes: Iterable[ast.AST]) -> set[str]:
    """Return the names that these nodes bind, without the nodes inside them."""
    return {name for node in nodes for name in _list_bound_names(node)}


def _list_bound_names(node: ast.AST) -> list[str]:
    match node:
        case ast.Name(id=name, ctx=ast.Store() | ast.Del()) | ast.arg(arg=name):
            return [name]
        case ast.alias(name=path, asname=name) if path != "*":
            return [name or path.partition(".")[0]]
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            return [node.name]
        case ast.ExceptHandler(name=str(name)) | ast.MatchAs(name=str(name)):
            return [name]
        case ast.MatchStar(name=str(name)) | ast.MatchMapping(rest=str(name)):
            return [name]
    return []


def get_root_name(node: ast.AST) -> str | None:
    """Return `x` for `x.a[0].b`; None if the chain does not start at a name."""
    while isinstance(node, (ast.Attribute, ast.Subscript)):
        node = node.value
    return node.id if isinstance(node, ast.Name) else None


# ----------------------------------------------------------------------------- scoping


@dataclass(slots=True)
class _Scope:
    kind: Literal["class", "function", "comprehension", "parameters"]
    names: set[str]
    declared_global: set[str] = field(default_factory=set)


def _make_function_scope(node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) -> _Scope:
    body = [node.body] if isinstance(node, ast.Lambda) else node.body
    own = list(iter_scope_nodes(body))
    declared = {name for n in own if isinstance(n, ast.Global) for name in n.names}
    outer = {name for n in own if isinstance(n, ast.Nonlocal) for name in n.names}
    names = collect_bound_names([*own, *list_arguments(node.args)])
    return _Scope("function", names - declared - outer, declared)


def list_arguments(args: ast.arguments) -> list[ast.arg]:
    """Return all arguments of a signature, in source order."""
    written = [*args.posonlyargs, *args.args, args.vararg, *args.kwonlyargs, args.kwarg]
    return [argument for argument in written if argument is not None]


class _Visitor(ast.NodeVisitor):
    """Fill `effects`. Names that nothing binds, such as builtins, count as read."""

    def __init__(self, annotations_run: bool) -> None:
        self.effects = Effects()
        self.bound: set[str] = set()
        self._annotations_run = annotations_run
        self._scopes: list[_Scope] = []
        self._lazy = False

    # names

    def _is_global(self, name: str) -> bool:
        innermost = True
        for scope in reversed(self._scopes):
            if innermost or scope.kind != "class":
                if name in scope.declared_global:
                    return True
                if name in scope.names:
                    return False
            innermost = innermost and scope.kind == "parameters"
        return True

    def _record_read(self, name: str, line: int) -> None:
        if not self._is_global(name):
            return
        if self._lazy:
            self.effects.lazy.setdefault(name, line)
        elif name not in self.bound:
            self.effects.eager.setdefault(name, line)

    def _bind(self, name: str, walrus: bool = False) -> None:
        scopes = [s for s in self._scopes if not (walrus and s.kind == "comprehension")]
        if scopes and name not in scopes[-1].declared_global:
            scopes[-1].names.add(name)
        elif self._lazy:
            self.effects.sets.add(name)
        else:
            self.effects.binds.add(name)
            self.bound.add(name)

    def _record_change(self, name: str | None, names: set[str]) -> None:
        """Record that the object called `name` changes, while the name stays bound to it."""
        if name is not None and not self._lazy and self._is_global(name):
            names.add(name)

    def _visit_all(self, nodes: Iterable[ast.AST | None]) -> None:
        for node in nodes:
            if node is not None:
                self.visit(node)

    def _visit_alternatives(self, *paths: Sequence[ast.AST]) -> None:
        """Visit alternative paths; after them, only names that all paths bind are certain."""
        before, after = self.bound, []
        for path in paths:
            self.bound = set(before)
            self._visit_all(path)
            after.append(self.bound)
        self.bound = set.intersection(*after)

    def _visit_in_scope(self, scope: _Scope, nodes: Iterable[ast.AST | None]) -> None:
        self._scopes.append(scope)
        self._visit_all(nodes)
        self._scopes.pop()

    def visit_Name(self, node: ast.Name) -> None:
        if not isinstance(node.ctx, ast.Store):  # `del x` needs an x
            self._record_read(node.id, node.lineno)
        if not isinstance(node.ctx, ast.Load):
            self._bind(node.id)

    def visit_NamedExpr(self, node: ast.NamedExpr) -> None:
        self.visit(node.value)
        self._bind(node.target.id, walrus=True)

    def visit_Global(self, node: ast.Global) -> None:
        if self._scopes:
            self._scopes[-1].declared_global.update(node.names)

    # simple statements: values before targets

    def visit_Assign(self, node: ast.Assign) -> None:
        self._visit_all([node.value, *node.targets])

    def visit_AugAssign(self, node: ast.AugAssign) -> None:
        if isinstance(node.target, ast.Name):
            self._record_read(node.target.id, node.lineno)
        self._visit_all([node.value, node.target])

    def visit_AnnAssign(self, node: ast.AnnAssign) -> None:
        if self._annotations_run and not (self._scopes and self._scopes[-1].kind == "function"):
            self.visit(node.annotation)
        if node.value is not None:  # `x: int` alone binds nothing
            self._visit_all([node.value, node.target])

    def visit_Attribute(self, node: ast.Attribute | ast.Subscript) -> None:
        if not isinstance(node.ctx, ast.Load):
            self._record_change(get_root_name(node), self.effects.changes)
        self.generic_visit(node)

    visit_Subscript = visit_Attribute

    def visit_Expr(self, node: ast.Expr) -> None:
        match node.value:
            case ast.Call(func=ast.Name(id="setattr" | "delattr"), args=[target, *_]):
                self._record_change(get_root_name(target), self.effects.changes)
            case ast.Call(func=ast.Attribute(value=grown, attr=method)) if (
                method in _GROWING_METHODS
            ):
                self._record_change(get_root_name(grown), self.effects.grows)
        self.visit(node.value)

    def visit_Call(self, node: ast.Call) -> None:
        self.effects.runs_code |= not self._lazy
        self._record_change(
            node.func.id if isinstance(node.func, ast.Name) else None, self.effects.calls
        )
        self.generic_visit(node)

    def visit_Import(self, node: ast.Import) -> None:
        for alias in node.names:
            for name in _list_bound_names(alias):
                if self._scopes or alias.asname or "." not in alias.name:
                    self._bind(name)
                else:  # `import a.b` adds b to an a that earlier imports may have filled
                    self.effects.changes.add(name)
        if not self._scopes:
            self.effects.imports |= collect_bound_names(node.names)

    def visit_ImportFrom(self, node: ast.ImportFrom) -> None:
        names = collect_bound_names(node.names)
        for name in names:
            self._bind(name)
        if not self._scopes:
            self.effects.imports |= names
            self.effects.star |= any(alias.name == "*" for alias in node.names)
        if node.module == "__future__" and node.level == 0:
            for alias in node.names:
                feature = getattr(__future__, alias.name, None)
                self.effects.future |= getattr(feature, "compiler_flag", 0)

    # compound statements

    def visit_If(self, node: ast.If | ast.While) -> None:
        self.visit(node.test)
        self._visit_alternatives(node.body, node.orelse)

    visit_While = visit_If

    def visit_For(self, node: ast.For | ast.AsyncFor) -> None:
        self.visit(node.iter)
        self._visit_alternatives([node.target, *node.body], node.orelse)

    visit_AsyncFor = visit_For

    def visit_Try(self, node: ast.Try | ast.TryStar) -> None:
        self._visit_alternatives(
            [*node.body, *node.orelse], *([handler] for handler in node.handlers)
        )
        self._visit_all(node.finalbody)

    visit_TryStar = visit_Try

    def visit_ExceptHandler(self, node: ast.ExceptHandler) -> None:
        self._visit_all([node.type])
        for name in _list_bound_names(node):
            self._bind(name)
        self._visit_all(node.body)
        if not self._scopes:  # after the handler the name is gone
            self.bound.difference_update(_list_bound_names(node))

    def visit_Match(self, node: ast.Match) -> None:
        self.visit(node.subject)
        self._visit_alternatives(*([case] for case in node.cases), [])

    def _visit_capture(self, node: ast.MatchAs | ast.MatchStar | ast.MatchMapping) -> None:
        self.generic_visit(node)
        for name in _list_bound_names(node):
            self._bind(name)

    visit_MatchAs = visit_MatchStar = visit_MatchMapping = _visit_capture

    # scopes

    def visit_FunctionDef(self, node: ast.FunctionDef | ast.AsyncFunctionDef) -> None:
        self._visit_decorators(node)
        self._visit_all([*node.args.defaults, *node.args.kw_defaults])
        self._open_type_parameters(node)
        if self._annotations_run:
            self._visit_all([*(a.annotation for a in list_arguments(node.args)), node.returns])
        self._visit_body(node, node.body)
        self._scopes.pop()
        self._bind(node.name)

    visit_AsyncFunctionDef = visit_FunctionDef

    def visit_Lambda(self, node: ast.Lambda) -> None:
        self._visit_all([*node.args.defaults, *node.args.kw_defaults])
        self._visit_body(node, [node.body])

    def _visit_body(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda, body: Sequence[ast.AST]
    ) -> None:
        self._scopes.append(_make_function_scope(node))
        self._visit_lazily(body)
        self._scopes.pop()

    def visit_ClassDef(self, node: ast.ClassDef) -> None:
        self._visit_decorators(node)
        self._open_type_parameters(node)
        self._visit_all([*node.bases, *node.keywords])
        self._visit_in_scope(_Scope("class", set()), node.body)
        self._scopes.pop()
        self._bind(node.name)

    def _visit_decorators(
        self, node: ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
    ) -> None:
        self.effects.runs_code |= bool(node.decorator_list) and not self._lazy
        self._visit_all(node.decorator_list)

    def _visit_comprehension(
        self, node: ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp
    ) -> None:
        first, *rest = node.generators
        results = [node.key, node.value] if isinstance(node, ast.DictComp) else [node.elt]
        self.visit(first.iter)
        targets = [own for generator in node.generators for own in ast.walk(generator.target)]
        later = [part for g in rest for part in (g.iter, g.target, *g.ifs)]
        self._visit_in_scope(
            _Scope("comprehension", collect_bound_names(targets)),
            [first.target, *first.ifs, *later, *results],
        )

    visit_ListComp = visit_SetComp = visit_DictComp = visit_GeneratorExp = _visit_comprehension

    def visit_TypeAlias(self, node: ast.AST) -> None:  # Python 3.12: its value is lazy
        name, *_, value = ast.iter_child_nodes(node)
        self._open_type_parameters(node)
        self._visit_lazily([value])
        self._scopes.pop()
        self.visit(name)

    def _open_type_parameters(self, node: ast.AST) -> None:
        """Open the scope of `[T: Bound]`, which is empty before Python 3.12."""
        parameters = getattr(node, "type_params", [])
        self._scopes.append(_Scope("parameters", {parameter.name for parameter in parameters}))
        self._visit_lazily(parameters)

    def _visit_lazily(self, nodes: Iterable[ast.AST]) -> None:
        before, self._lazy = self._lazy, True
        self._visit_all(nodes)
        self._lazy = before
