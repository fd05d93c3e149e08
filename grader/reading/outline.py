"""What a submission defines, and what is worth saying about it: read, never run.

An outline answers "what is there": names, signatures, places. A remark is an observation that
is true of the text, worded so that it stays true whatever the code computes; whether it costs
anything is for others to decide. Everything here is plain data that JSON can carry.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Literal

from grader.reading.cells import SubmissionSource
from grader.reading.effects import analyse_effects, collect_bound_names, iter_scope_nodes
from grader.reading.plain_tensors import find_plain_tensors
from grader.reading.symbol_table import (
    DefinitionSite,
    FunctionNode,
    SymbolTable,
    build_symbol_table,
    list_methods,
)


@dataclass(frozen=True, slots=True)
class Parameter:
    """A parameter of a signature; the `self` of a method is none."""

    name: str
    kind: Literal["positional", "keyword", "*", "**"]
    has_default: bool


@dataclass(frozen=True, slots=True)
class Definition:
    """A class or function of the top level, as its last definition has it.

    A class has the parameters of its constructor, its own or inherited from a class of the
    submission; `parameters` and `forward` are None where the submission writes none.
    """

    name: str
    kind: Literal["class", "function"]
    cell: int | None
    line: int
    parameters: tuple[Parameter, ...] | None
    forward: tuple[Parameter, ...] | None
    bases: tuple[str, ...]
    times_defined: int
    redefined_in: tuple[int | None, ...]
    """The cells of all definitions but the first."""
    alias_of: str | None = None
    """What it is another name for: `Wanted = Attention`."""


@dataclass(frozen=True, slots=True)
class AssignedName:
    """A name that top-level code assigns, and where it does so last."""

    name: str
    cell: int | None
    line: int


@dataclass(frozen=True, slots=True)
class Outline:
    """What a submission defines, each name in the order of first appearance; aliases come last."""

    definitions: tuple[Definition, ...]
    assigned: tuple[AssignedName, ...]


@dataclass(frozen=True, slots=True)
class CodeWarning:
    """An observation about a definition, and the place it is about."""

    kind: Literal["defined_twice", "notebook_variable", "prints", "unregistered", "unused_argument"]
    message: str
    cell: int | None
    line: int


def build_outline(source: SubmissionSource) -> Outline:
    """What the cells that are Python define at their top level."""
    symbols = build_symbol_table(source)
    definitions = tuple(
        _describe_definition(symbols, sites) for sites in symbols.definitions.values()
    )
    assigned = (AssignedName(name, v.cell, v.line) for name, v in symbols.assigned.items())
    return Outline((*definitions, *_iter_aliases(symbols)), tuple(assigned))


def find_warnings(source: SubmissionSource, name: str) -> tuple[CodeWarning, ...]:
    """What to say about a definition and all of the submission that it uses, in its order.

    Empty if the submission does not define the name.
    """
    symbols = build_symbol_table(source)
    used = symbols.collect_reachable_definitions(name)
    found = {remark for site in used for remark in _iter_warnings(symbols, site)}
    found.update(_find_prints(symbols, used))
    return tuple(sorted(found, key=lambda r: (r.cell or 0, r.line, r.kind, r.message)))


# ----------------------------------------------------------------------------- outlines


def _describe_definition(symbols: SymbolTable, sites: list[DefinitionSite]) -> Definition:
    last = sites[-1]
    return Definition(
        name=last.node.name,
        kind="class" if isinstance(last.node, ast.ClassDef) else "function",
        cell=last.cell,
        line=last.node.lineno,
        parameters=_read_signature(symbols, last, "__init__"),
        forward=_read_signature(symbols, last, "forward")
        if isinstance(last.node, ast.ClassDef)
        else None,
        bases=tuple(map(ast.unparse, getattr(last.node, "bases", ()))),
        times_defined=len(sites),
        redefined_in=tuple(site.cell for site in sites[1:]),
    )


def _iter_aliases(symbols: SymbolTable) -> Iterator[Definition]:
    """Lambdas, and other names for what the submission defines."""
    for name, variable in symbols.assigned.items():
        if name in symbols.definitions:
            continue
        if isinstance(variable.value, ast.Lambda):
            parameters = tuple(_iter_parameters(variable.value.args))
            at = variable.cell, variable.line
            yield Definition(name, "function", *at, parameters, None, (), 1, ())
        elif isinstance(variable.value, ast.Name) and variable.value.id in symbols.definitions:
            meant = _describe_definition(symbols, symbols.definitions[variable.value.id])
            yield replace(meant, name=name, alias_of=meant.name)


def _read_signature(
    symbols: SymbolTable, site: DefinitionSite, method: str
) -> tuple[Parameter, ...] | None:
    if not isinstance(site.node, ast.ClassDef):
        return tuple(_iter_parameters(site.node.args))
    found = symbols.find_method(site, method)
    return None if found is None else tuple(_iter_parameters(found[1].args))[_is_bound(*found) :]


def _iter_parameters(args: ast.arguments) -> Iterator[Parameter]:
    positional = [*args.posonlyargs, *args.args]
    required = len(positional) - len(args.defaults)
    for i, arg in enumerate(positional):
        yield Parameter(arg.arg, "positional", i >= required)
    if args.vararg:
        yield Parameter(args.vararg.arg, "*", False)
    for arg, default in zip(args.kwonlyargs, args.kw_defaults, strict=True):
        yield Parameter(arg.arg, "keyword", default is not None)
    if args.kwarg:
        yield Parameter(args.kwarg.arg, "**", False)


def _is_bound(site: DefinitionSite, function: FunctionNode) -> bool:
    """It is a method whose first positional parameter is `self`, whatever its name."""
    static = any(
        isinstance(d, ast.Name) and d.id == "staticmethod" for d in function.decorator_list
    )
    positional = [*function.args.posonlyargs, *function.args.args]
    return isinstance(site.node, ast.ClassDef) and not static and bool(positional)


# ------------------------------------------------------------------------------ remarks


def _iter_warnings(symbols: SymbolTable, site: DefinitionSite) -> Iterator[CodeWarning]:
    yield from _find_redefinitions(symbols, site)
    if isinstance(site.node, ast.ClassDef):
        own = {function.name: function for function in list_methods(site.node)}
        called = [own[name] for name in ("__init__", "forward") if name in own]
        yield from _find_unregistered(symbols, site, site.node)
    else:
        own = {site.node.name: site.node}
        called = [site.node]
    for function in own.values():
        yield from _find_notebook_variables(symbols, site, function)
    for function in called:
        yield from _find_unused_arguments(site, function)


def _find_redefinitions(symbols: SymbolTable, site: DefinitionSite) -> Iterator[CodeWarning]:
    name, sites = site.node.name, symbols.definitions[site.node.name]
    if len(sites) < 2:
        return
    if site.cell is None:
        where = "on lines " + _join_items(str(p.node.lineno) for p in sites)
    elif len({p.cell for p in sites}) == len(sites):
        where = "in cells " + _join_items(str(p.cell) for p in sites)
    else:
        where = "in " + _join_items(f"cell {p.cell} line {p.node.lineno}" for p in sites)
    message = f"`{name}` is defined {where}; the last one counts"
    yield CodeWarning("defined_twice", message, site.cell, site.node.lineno)


def _find_notebook_variables(
    symbols: SymbolTable, site: DefinitionSite, function: FunctionNode
) -> Iterator[CodeWarning]:
    effects = analyse_effects(function, annotations_run=False)
    is_method = isinstance(site.node, ast.ClassDef)
    # Defaults are evaluated in the class body and see its names.
    hidden = collect_bound_names(iter_scope_nodes(site.node.body)) if is_method else set[str]()
    eager = {name: line for name, line in effects.eager.items() if name not in hidden}
    for name, line in {**eager, **effects.lazy}.items():
        variable = symbols.find_variable(name)
        if variable is None:
            continue
        at = f"on line {variable.line}" if variable.cell is None else f"in cell {variable.cell}"
        noun = "module" if variable.cell is None else "notebook"
        message = f"{_label(site, function)} reads the {noun} variable `{name}` (set {at})"
        if not symbols.is_constant(name):
            advice = "a class should use its own arguments and attributes"
            message += f"; {advice if is_method else 'a function should use its own arguments'}"
        yield CodeWarning("notebook_variable", message, site.cell, line)


def _find_unused_arguments(site: DefinitionSite, function: FunctionNode) -> Iterator[CodeWarning]:
    inside = [node for statement in function.body for node in ast.walk(statement)]
    names = [node for node in inside if isinstance(node, ast.Name)]
    read = {node.id for node in names if not isinstance(node.ctx, ast.Store)}
    read |= {
        n.target.id
        for n in inside
        if isinstance(n, ast.AugAssign) and isinstance(n.target, ast.Name)
    }
    if _is_stub(function) or read & {"eval", "exec", "locals", "vars"}:
        return
    positional = [*function.args.posonlyargs, *function.args.args]
    for arg in [*positional[_is_bound(site, function) :], *function.args.kwonlyargs]:
        if arg.arg not in read and not arg.arg.startswith("_"):
            message = f"{_label(site, function)} never uses its argument `{arg.arg}`"
            yield CodeWarning("unused_argument", message, site.cell, arg.lineno)


def _is_stub(function: FunctionNode) -> bool:
    """It has no body yet: a docstring, `pass`, `...` or a refusal."""
    return all(
        isinstance(statement, (ast.Pass, ast.Raise))
        or (isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant))
        for statement in function.body
    )


def _find_unregistered(
    symbols: SymbolTable, site: DefinitionSite, node: ast.ClassDef
) -> Iterator[CodeWarning]:
    found = [method for method in list_methods(node) if method.name == "__init__"]
    if not found or not node.bases:
        return
    statements = (statement.node for statement in symbols.program.statements)
    for attribute, line in find_plain_tensors(found[-1], statements).items():
        message = (
            f"`self.{attribute}` of `{node.name}` is a plain tensor: "
            "optimizers, state_dict and .to(device) do not see it"
        )
        yield CodeWarning("unregistered", message, site.cell, line)


def _find_prints(symbols: SymbolTable, used: list[DefinitionSite]) -> Iterator[CodeWarning]:
    """Remarks on `print` where it runs with every call: in `forward` and in what that calls."""
    # Where calls begin: in what was asked for and in the modules it builds. Its bases and other
    # functions count when they are called.
    bases = {base.node for site in used for base in symbols.iter_bases(site)}
    built = [site for i, site in enumerate(used) if i == 0 or site.node not in bases]
    starts = [(site, name) for site in built for name in ("forward", "__call__")]
    todo = [(site, found) for site, name in starts if (found := symbols.find_method(site, name))]
    if used and not isinstance(used[0].node, ast.ClassDef):
        todo.append((used[0], (used[0], used[0].node)))
    seen: set[tuple[ast.AST, ast.AST]] = set()
    while todo and symbols.find_definition("print") is None:
        receiver, (site, function) = todo.pop()
        if (receiver.node, function) not in seen:
            seen.add((receiver.node, function))
            yield from _make_print_warning(site, function)
            todo += _iter_callees(symbols, receiver, site, function)


def _make_print_warning(site: DefinitionSite, function: FunctionNode) -> Iterator[CodeWarning]:
    printed = [
        node
        for node in ast.walk(function)
        if isinstance(node, ast.Call)
        and isinstance(node.func, ast.Name)
        and node.func.id == "print"
    ]
    if printed and "print" in analyse_effects(function).lazy:
        calls = "once" if len(printed) == 1 else f"{len(printed)} times"
        message = f"{_label(site, function)} calls print {calls}; its answer is what it returns"
        yield CodeWarning("prints", message, site.cell, min(node.lineno for node in printed))


def _iter_callees(
    symbols: SymbolTable, receiver: DefinitionSite, site: DefinitionSite, function: FunctionNode
) -> Iterator[tuple[DefinitionSite, tuple[DefinitionSite, FunctionNode]]]:
    """The methods of `self` and `super()` and the functions that a function mentions."""
    positional = [*function.args.posonlyargs, *function.args.args]
    own_name = positional[0].arg if _is_bound(site, function) else None
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=receiver_name), attr=attribute):
                found = (
                    symbols.find_method(receiver, attribute) if receiver_name == own_name else None
                )
                if found:
                    yield receiver, found
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=attribute):
                inherited = (
                    symbols.find_method(base, attribute) for base in symbols.iter_bases(site)
                )
                yield from ((receiver, found) for found in inherited if found)
    for name in analyse_effects(function).lazy:
        other = symbols.find_definition(name)
        if other is not None and not isinstance(other.node, ast.ClassDef):
            yield other, (other, other.node)


def _label(site: DefinitionSite, function: FunctionNode) -> str:
    if isinstance(site.node, ast.ClassDef):
        return f"`{function.name}` of `{site.node.name}`"
    return f"`{function.name}`"


def _join_items(items: Iterable[str]) -> str:
    *most, last = items
    return f"{', '.join(most)} and {last}"
