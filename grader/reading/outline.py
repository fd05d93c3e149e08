"""The definitions of a submission, and warnings about its code, from its text alone.

A definition is a name with its signature and position. A warning states a fact about the text that
is true whatever the code computes. Whether a warning costs points is decided elsewhere. Definitions
and warnings are plain data for JSON.
"""

import ast
import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from headcheck.grader.reading.cache_methods import find_forgotten, find_reset, list_set_later
from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.companions import Companion, list_companions
from headcheck.grader.reading.config_fields import list_options
from headcheck.grader.reading.docstrings import quote_batch_first, quote_own_token, read_docstrings
from headcheck.grader.reading.effects import analyse_effects, collect_bound_names, iter_scope_nodes
from headcheck.grader.reading.near_names import NearName, find_near_name
from headcheck.grader.reading.parameters import (
    Parameter,
    is_bound,
    iter_parameters,
    list_unused_arguments,
    read_parameters,
)
from headcheck.grader.reading.plain_tensors import find_plain_tensors
from headcheck.grader.reading.symbol_table import (
    DefinitionSite,
    FunctionNode,
    SymbolTable,
    build_symbol_table,
    label_function,
    list_methods,
)


@dataclass(frozen=True, slots=True)
class Definition:
    """A top-level class or function, according to its last definition.

    The parameters of a class are those of its constructor, which may be inherited from a class of
    the submission. `parameters` and `forward` are None where the submission defines none.
    """

    name: str
    kind: Literal["class", "function"]
    cell: int | None
    line: int
    parameters: tuple[Parameter, ...] | None
    forward: tuple[Parameter, ...] | None
    bases: tuple[str, ...]
    alias_of: str | None = None
    """the definition for which this is another name: `Attention` in `Wanted = Attention`"""
    doc: str = ""
    """the beginning of its docstring, and of that of its `forward`"""
    reset: str = ""
    """the name of its method that forgets earlier calls; "" without one"""
    forgets: str = ""
    """the attribute that its users set to None for this; "" without one"""
    set_later: tuple[str, ...] = ()
    """the attributes that its caller may have to set up by calling another method"""
    for_inference: bool = False
    """whether its `forward` says that it computes no gradients, or what it keeps has none"""
    batch_first: str = ""
    """what it says of the axes of its tokens, if it says that the batch comes first"""
    own_token: str = ""
    """what it says of the token itself, if it says that a window counts it"""
    near_constructor: NearName | None = None
    """the misspelt method that was meant to be `__init__`"""
    companions: tuple[Companion, ...] = ()
    """the objects that it is given for which the submission has a maker"""
    options: tuple[Parameter, ...] = ()
    """the fields that it reads from a config, and that are off or None by default"""


@dataclass(frozen=True, slots=True)
class CodeWarning:
    """An observation about a definition, and its position."""

    kind: Literal[
        "defined_twice", "import", "notebook_variable", "prints", "unregistered", "unused_argument"
    ]
    message: str
    cell: int | None
    line: int
    argument: str = ""
    """the argument that is never used"""


def list_definitions(source: SubmissionSource) -> list[Definition]:
    """Return the top-level definitions in the order of first appearance, aliases last."""
    symbols = build_symbol_table(source)
    own = [_describe_definition(symbols, sites) for sites in symbols.definitions.values()]
    return [*own, *_iter_aliases(symbols)]


def find_warnings(source: SubmissionSource, name: str) -> tuple[CodeWarning, ...]:
    """Return the warnings about a definition and all definitions that it uses, in source order.

    Empty if the submission does not define the name.
    """
    symbols = build_symbol_table(source)
    used = symbols.collect_reachable_definitions(name)
    found = {warning for site in used for warning in _iter_warnings(symbols, site)}
    found.update(_find_redefinitions(symbols, used))
    found.update(_find_broken_redefinitions(source, used))
    found.update(_find_prints(symbols, used))
    return tuple(sorted(found, key=lambda w: (w.cell or 0, w.line, w.kind, w.message)))


# -------------------------------------------------------------------------- definitions


def _describe_definition(symbols: SymbolTable, sites: list[DefinitionSite]) -> Definition:
    last = sites[-1]
    is_class = isinstance(last.node, ast.ClassDef)
    reset = find_reset(last)
    return Definition(
        name=last.node.name,
        kind="class" if is_class else "function",
        cell=last.cell,
        line=last.node.lineno,
        parameters=_read_signature(symbols, last, "__init__"),
        forward=_read_signature(symbols, last, "forward") if is_class else None,
        bases=tuple(map(ast.unparse, getattr(last.node, "bases", ()))),
        doc=read_docstrings(symbols, last),
        reset="" if reset is None else reset.name,
        forgets=find_forgotten(symbols, last) if is_class and reset is None else "",
        set_later=list_set_later(last) if is_class else (),
        for_inference=_is_for_inference(symbols, last),
        batch_first=quote_batch_first(symbols, last),
        own_token=quote_own_token(symbols, last),
        near_constructor=find_near_name(symbols, last, "__init__"),
        companions=tuple(list_companions(symbols, last)),
        options=tuple(list_options(symbols, last)) if is_class else (),
    )


def _is_for_inference(symbols: SymbolTable, site: DefinitionSite) -> bool:
    """Whether a call switches gradients off, or a cache gets numbers that are cut off them."""
    found = symbols.find_method(site, "forward")
    called = found[1] if found else site.node
    decorators = called.decorator_list
    used = symbols.collect_reachable_definitions(site.node.name)
    written = (node for each in used for node in ast.walk(each.node) if _is_written(node))
    return any(
        re.search("no_grad|inference_mode", ast.unparse(each)) for each in decorators
    ) or any(re.search(r"\.(detach\(\)|data\b)", ast.unparse(node)) for node in written)


def _is_written(node: ast.AST) -> bool:
    """Whether a statement writes into a part of an attribute, as into a cache."""
    targets = node.targets if isinstance(node, ast.Assign) else ()
    return any(isinstance(t, ast.Subscript) and isinstance(t.value, ast.Attribute) for t in targets)


def _iter_aliases(symbols: SymbolTable) -> Iterator[Definition]:
    """Yield names of lambdas and of partial calls, and further names of definitions."""
    for name, variable in symbols.assigned.items():
        if name in symbols.definitions:
            continue
        if isinstance(variable.value, ast.Lambda):
            parameters = tuple(iter_parameters(variable.value.args))
            position = variable.cell, variable.line
            yield Definition(name, "function", *position, parameters, None, ())
        elif isinstance(variable.value, ast.Name) and variable.value.id in symbols.definitions:
            original = _describe_definition(symbols, symbols.definitions[variable.value.id])
            yield replace(original, name=name, alias_of=original.name)
        elif (called := _find_partial(variable.value)) in symbols.definitions:
            original = _describe_definition(symbols, symbols.definitions[called])
            left = _list_left(original.parameters or (), variable.value)
            yield Definition(name, "function", variable.cell, variable.line, left, None, ())


def _find_partial(value: ast.expr | None) -> str:
    """Return the name of what `functools.partial` is given to call; "" for any other value."""
    if not isinstance(value, ast.Call) or not value.args or not isinstance(value.args[0], ast.Name):
        return ""
    is_partial = ast.unparse(value.func) in ("partial", "functools.partial")
    return value.args[0].id if is_partial else ""


def _list_left(parameters: Sequence[Parameter], value: ast.expr | None) -> tuple[Parameter, ...]:
    """Return the parameters that a partial call leaves; those it names have defaults now."""
    if not isinstance(value, ast.Call):
        return tuple(parameters)
    named = {keyword.arg for keyword in value.keywords}
    left = parameters[len(value.args) - 1 :]
    return tuple(replace(p, has_default=p.has_default or p.name in named) for p in left)


def _read_signature(
    symbols: SymbolTable, site: DefinitionSite, method: str
) -> tuple[Parameter, ...] | None:
    if not isinstance(site.node, ast.ClassDef):
        return tuple(iter_parameters(site.node.args))
    found = symbols.find_method(site, method)
    return None if found is None else read_parameters(symbols, *found)


# ----------------------------------------------------------------------------- warnings


def _iter_warnings(symbols: SymbolTable, site: DefinitionSite) -> Iterator[CodeWarning]:
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
        for arg in list_unused_arguments(site, function):
            message = f"{label_function(site, function)} never uses its argument `{arg.arg}`"
            yield CodeWarning("unused_argument", message, site.cell, arg.lineno, arg.arg)


def _find_redefinitions(
    symbols: SymbolTable, used: Sequence[DefinitionSite]
) -> Iterator[CodeWarning]:
    """Yield a warning for each name with several definitions, at the position of the one in force.

    The definition in force is the last one, except for a base class: a class keeps the base that it
    had when the class was defined.
    """
    bases = [(base, site) for site in used for base in symbols.iter_bases(site)]
    for site in used:
        name, sites = site.node.name, symbols.definitions[site.node.name]
        if len(sites) < 2:
            continue
        earlier = [(b, user) for b, user in bases if b.node.name == name and b is not sites[-1]]
        in_force, which = site, "the last one counts"
        if earlier:
            in_force, user = earlier[0]
            which = f"the one before `{user.node.name}` counts there"
        message = f"`{name}` is defined {_describe_sites(sites)}; {which}"
        yield CodeWarning("defined_twice", message, in_force.cell, in_force.node.lineno)


def _describe_sites(sites: Sequence[DefinitionSite]) -> str:
    if sites[0].cell is None:
        return "on lines " + _join_items(str(p.node.lineno) for p in sites)
    if len({p.cell for p in sites}) == len(sites):
        return "in cells " + _join_items(str(p.cell) for p in sites)
    return "in " + _join_items(f"cell {p.cell} line {p.node.lineno}" for p in sites)


def _find_broken_redefinitions(
    source: SubmissionSource, used: Sequence[DefinitionSite]
) -> Iterator[CodeWarning]:
    """Yield a warning for each definition that a cell with invalid Python seems to replace."""
    order = [cell.number for cell in source.cells]
    broken = [(c.number, c.text, c.error) for c in source.cells if c.error is not None]
    for (number, text, error), site in itertools.product(broken, used):
        name = site.node.name
        again = re.search(rf"^[ \t]*(?:class|def)[ \t]+{name}\b", text, re.M)
        if again is None or number is None or order.index(site.cell) > order.index(number):
            continue
        unused = f"of which nothing can be used: {error.message}, line {error.line}"
        where = f"in cell {number}, {unused}; that in cell {site.cell} counts"
        message = f"`{name}` is defined again {where}"
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
        where = f"on line {variable.line}" if variable.cell is None else f"in cell {variable.cell}"
        noun = "module" if variable.cell is None else "notebook"
        label = label_function(site, function)
        message = f"{label} reads the {noun} variable `{name}` (set {where})"
        if not symbols.is_constant(name):
            advice = "a class should use its own arguments and attributes"
            message += f"; {advice if is_method else 'a function should use its own arguments'}"
        yield CodeWarning("notebook_variable", message, site.cell, line)


def _find_unregistered(
    symbols: SymbolTable, site: DefinitionSite, node: ast.ClassDef
) -> Iterator[CodeWarning]:
    constructors = [method for method in list_methods(node) if method.name == "__init__"]
    if not constructors or not node.bases:
        return
    statements = (statement.node for statement in symbols.program.statements)
    for attribute, line in find_plain_tensors(constructors[-1], statements).items():
        message = (
            f"`self.{attribute}` of `{node.name}` is a plain tensor: "
            "optimizers, state_dict and .to(device) do not see it"
        )
        yield CodeWarning("unregistered", message, site.cell, line)


def _find_prints(symbols: SymbolTable, used: list[DefinitionSite]) -> Iterator[CodeWarning]:
    """Yield warnings about each `print` that runs in every call: in `forward` and its callees."""
    # Calls begin in the definition itself and in the modules it builds. Its bases and other
    # functions count only if they are called.
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
    calls = [node.func for node in ast.walk(function) if isinstance(node, ast.Call)]
    lines = [f.lineno for f in calls if isinstance(f, ast.Name) and f.id == "print"]
    if lines and "print" in analyse_effects(function).lazy:
        times = "once" if len(lines) == 1 else f"{len(lines)} times"
        label = label_function(site, function)
        message = f"{label} calls print {times}; its answer is what it returns"
        yield CodeWarning("prints", message, site.cell, min(lines))


def _iter_callees(
    symbols: SymbolTable, receiver: DefinitionSite, site: DefinitionSite, function: FunctionNode
) -> Iterator[tuple[DefinitionSite, tuple[DefinitionSite, FunctionNode]]]:
    """Yield the methods of `self` and `super()` and the functions that a function mentions.

    Each is the second item of a pair, after the class whose instances call it.
    """
    positional = [*function.args.posonlyargs, *function.args.args]
    self_name = positional[0].arg if is_bound(site, function) else None
    for node in ast.walk(function):
        match node:
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == self_name:
                owners = [receiver]
            case ast.Attribute(value=ast.Call(func=ast.Name(id="super")), attr=attribute):
                owners = [*symbols.iter_bases(site)]
            case _:
                continue
        methods = (symbols.find_method(owner, attribute) for owner in owners)
        yield from ((receiver, method) for method in methods if method)
    for name in analyse_effects(function).lazy:
        other = symbols.find_definition(name)
        if other is not None and not isinstance(other.node, ast.ClassDef):
            yield other, (other, other.node)


def _join_items(items: Iterable[str]) -> str:
    *most, last = items
    return f"{', '.join(most)} and {last}"
