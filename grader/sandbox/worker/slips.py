"""List the edits of a submission that may undo the slip for which it stops.

Theory
------
A slip is a word that Python does not understand in code that is otherwise written: a misspelt name,
a missing import or `return`, a method that is not called. What the word should be follows from the
code alone, so that no edit is chosen because it turns out to be right: a name means the one nearest
to it in spelling, or nothing if two are as near. Numbers, signs, axes, operators, and the order of
arguments say what is computed. They are the student's, and no edit changes them.

The kinds of slips are gone through in a fixed order, those of which the text is the proof first.
The edits of the first kind that is found are all that is listed. The grader process tries the edit
only if it is the only one (`grader.grading.repair`).
"""

import ast
import builtins
import difflib
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import nn

from headcheck.grader.reading.cells import SubmissionSource
from headcheck.grader.reading.edits import Edit, insert, prepend, replace_node
from headcheck.grader.reading.slicing import Position
from headcheck.grader.reading.symbol_table import DefinitionSite, build_symbol_table

NEAR = 0.75
"""how alike a misspelt word and its meaning are at least, by `difflib`"""
NEAR_METHOD = 0.6
"""the same for the methods that a module must have, of which there are two"""
IMPORTS = {
    "F": "import torch.nn.functional as F", "Tensor": "from torch import Tensor",
    "math": "import math", "nn": "from torch import nn", "np": "import numpy as np",
    "sqrt": "from math import sqrt", "torch": "import torch",
}  # fmt: skip
"""the usual imports of names that are often left out"""
METHODS = frozenset(dir(torch.Tensor))
MODULES = {
    "F": frozenset(dir(nn.functional)), "functional": frozenset(dir(nn.functional)),
    "nn": frozenset(dir(nn)), "torch": frozenset(dir(torch)),
}  # fmt: skip
"""what torch's modules hold, by the names that they have in a submission"""
WORDS = METHODS.union(*MODULES.values())
KEYWORDS = (
    "attn_mask", "bias", "batch_first", "device", "diagonal", "dim", "dropout_p", "dtype",
    "is_causal", "keepdim", "persistent",
)  # fmt: skip
METHODS_OF_MODULES = ("__init__", "forward")
ATTRIBUTES_OF_MODULES = frozenset(dir(nn.Module()))


@dataclass(frozen=True)
class Scope:
    """A node of a definition, and what the code around it can mean."""

    node: ast.AST
    parent: ast.AST
    names: frozenset[str]
    own: frozenset[str] = frozenset()
    """the names of the function around the node, without `self`"""
    function: ast.FunctionDef | None = None
    class_: ast.ClassDef | None = None


@dataclass(frozen=True)
class Stop:
    """A definition of a submission, and the line of it that stopped, if one did."""

    site: DefinitionSite
    names: frozenset[str]
    """the names of the submission's variables and definitions"""
    line: int | None
    entry: str
    """the name of the definition that was called"""

    @cached_property
    def scopes(self) -> list[Scope]:
        """All nodes of the definition."""
        return list(_walk(Scope(self.site.node, self.site.node, self.names)))

    @cached_property
    def at(self) -> list[Scope]:
        """The nodes on the line that stopped."""
        return [each for each in self.scopes if self._covers(each.node)]

    @cached_property
    def near(self) -> list[Scope]:
        """The nodes on the line that stopped, and in statements that set what this line reads."""
        read = {_name(each.node) for each in self.at if not _is_stored(each.node)} - {""}
        set_ = (s.node for s in self.scopes if isinstance(s.node, ast.Assign | ast.AugAssign))
        feeding = {
            node
            for statement in set_
            if read & {_name(n) for n in ast.walk(statement) if _is_stored(n)}
            for node in ast.walk(statement)
        }
        return [s for s in self.scopes if s.node in feeding or self._covers(s.node)]

    def _covers(self, node: ast.AST) -> bool:
        first, last = getattr(node, "lineno", 0), getattr(node, "end_lineno", 0)
        simple = not hasattr(node, "body")
        return self.line is not None and simple and first <= self.line <= last

    def replace(self, node: ast.expr | ast.stmt, by: ast.AST) -> Edit:
        return replace_node(self.site.cell, node, by)


def list_slips(source: SubmissionSource, name: str, stopped: Position | None) -> tuple[Edit, ...]:
    """Return the edits that may undo the slip of a definition, or of those that it uses.

    They are of one kind. Several edits mean that the code does not say which one is meant.
    """
    table = build_symbol_table(source)
    sites = table.collect_reachable_definitions(name)
    names = frozenset(table.program.binders) | {site.node.name for site in sites}
    cell, line = stopped or (None, None)
    lines = [line if site.cell == cell else None for site in sites]
    stops = [Stop(site, names, at, name) for site, at in zip(sites, lines, strict=True)]
    for kind in KINDS:
        if found := dict.fromkeys(edit for stop in stops for edit in kind(stop)):
            return tuple(found)
    return ()


def _walk(scope: Scope) -> Iterator[Scope]:
    """Yield a node and all that it consists of, except f-strings, whose parts have no positions."""
    node = scope.node
    if isinstance(node, ast.ClassDef):
        scope = replace(scope, class_=node)
    if isinstance(node, ast.FunctionDef):
        local = {n.id for n in ast.walk(node) if isinstance(n, ast.Name) and _is_stored(n)}
        own = scope.own | local | {n.arg for n in ast.walk(node) if isinstance(n, ast.arg)}
        known = scope.names | own
        scope = replace(scope, names=known, own=own - {"self"}, function=node)
    yield scope
    for child in ast.iter_child_nodes(node):
        if not isinstance(child, ast.JoinedStr):
            yield from _walk(replace(scope, node=child, parent=node))


def _name(node: ast.AST) -> str:
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _is_stored(node: ast.AST) -> bool:
    return isinstance(getattr(node, "ctx", None), ast.Store)


def _is_own(node: ast.AST) -> bool:
    """Whether this is an attribute of `self`."""
    return isinstance(node, ast.Attribute) and _name(node.value) == "self"


def _is_called(scope: Scope) -> bool:
    return isinstance(scope.parent, ast.Call) and scope.parent.func is scope.node


def find_nearest(word: str, known: Collection[str], cutoff: float = NEAR) -> str | None:
    """Return the word nearest to another in spelling; None if none is near, or two are as near."""
    public = [each for each in known if word.startswith("_") or not each.startswith("_")]
    near = difflib.get_close_matches(word, sorted(public), n=2, cutoff=cutoff)
    alike = [difflib.SequenceMatcher(None, each, word).ratio() for each in near]
    return near[0] if near and alike.count(alike[0]) == 1 else None


# ------------------------------------------------------------------------ slips of definitions


def _name_methods(stop: Stop) -> Iterator[Edit]:
    """Yield the names that methods should have: `forword` and `__int__` are not called."""
    for node in (each.node for each in stop.scopes if isinstance(each.node, ast.ClassDef)):
        methods = {n.name: n for n in node.body if isinstance(n, ast.FunctionDef)}
        for wanted in set(METHODS_OF_MODULES) - methods.keys():
            near = find_nearest(wanted, methods.keys() - {*METHODS_OF_MODULES}, NEAR_METHOD)
            if near is not None:
                line, start = methods[near].lineno, methods[near].col_offset + len("def ")
                place = line, start, line, start + len(near.encode())
                yield Edit(stop.site.cell, *place, wanted, near, wanted)


def _add_self(stop: Stop) -> Iterator[Edit]:
    """Yield `self` for the methods that do not take it."""
    for each in stop.scopes:
        node = each.node
        if not isinstance(node, ast.FunctionDef) or node.decorator_list or each.class_ is None:
            continue
        for given in node.args.args[:1] if node.name in METHODS_OF_MODULES else ():
            if given.arg != "self":
                yield insert(stop.site.cell, given.lineno, given.col_offset, "self, ", "self")


def _call_parent(stop: Stop) -> Iterator[Edit]:
    """Yield the call of the parent's `__init__`, where it is missing."""
    for each in stop.scopes:
        node, bases = each.node, [] if each.class_ is None else each.class_.bases
        if not isinstance(node, ast.FunctionDef) or "Module" not in map(_name, bases):
            continue
        first, body = _find_simple(node), ast.unparse(ast.Module(node.body, []))
        if node.name == "__init__" and "__init__" not in body and first is not None:
            call = "super().__init__()"
            yield insert(stop.site.cell, first.lineno, first.col_offset, f"{call}; ", call)


def _find_simple(node: ast.FunctionDef) -> ast.stmt | None:
    """Return the first statement of a function that holds no other."""
    return next((each for each in node.body if not hasattr(each, "body")), None)


def _return_result(stop: Stop) -> Iterator[Edit]:
    """Yield a `return` for the last statements of functions whose results are used."""
    alone = {s.node.value for s in stop.scopes if isinstance(s.node, ast.Expr)}
    called = {_name(s.node) for s in stop.scopes if _is_called(s) and s.parent not in alone}
    used = called | {"forward", stop.entry}
    for node in (each.node for each in stop.scopes):
        if isinstance(node, ast.FunctionDef) and node.name in used and not _returns(node):
            last = node.body[-1]
            end = last.end_lineno or last.lineno, last.end_col_offset or 0
            if isinstance(last, ast.Assign) and isinstance(last.targets[0], ast.Name):
                result = f"return {last.targets[0].id}"
                yield insert(stop.site.cell, *end, f"; {result}", result)
            if isinstance(last, ast.Expr) and not isinstance(last.value, ast.Constant):
                shown, place = f"return {ast.unparse(last)}", (last.lineno, last.col_offset)
                yield insert(stop.site.cell, *place, "return ", shown)


def _returns(node: ast.FunctionDef) -> bool:
    given = ast.Return, ast.Yield, ast.YieldFrom
    return any(isinstance(each, given) and each.value is not None for each in ast.walk(node))


# -------------------------------------------------------------------------- unknown words


def _spell_names(stop: Stop) -> Iterator[Edit]:
    """Yield what is meant by names that are bound nowhere."""
    for each in stop.at:
        node = each.node
        if not isinstance(node, ast.Name) or _is_stored(node):
            continue
        if node.id == "super" and not _is_called(each):
            yield stop.replace(node, ast.Call(node, [], []))
        elif node.id in each.names or hasattr(builtins, node.id):
            continue
        elif node.id in IMPORTS:
            yield prepend(IMPORTS[node.id])
        elif node.id in _list_attributes(each.class_):
            yield stop.replace(node, ast.Attribute(ast.Name("self"), node.id))
        elif near := find_nearest(node.id, each.names - {"self"}):
            yield stop.replace(node, ast.Name(near))


def _spell_attributes(stop: Stop) -> Iterator[Edit]:
    """Yield what is meant by attributes that neither `self` nor torch has."""
    for each in stop.at:
        node = each.node
        if not isinstance(node, ast.Attribute) or _is_stored(node):
            continue
        if _is_own(node):
            yield from _spell_own(stop, each, node)
            continue
        module = MODULES.get(_name(node.value))
        known = node.attr in (module or WORDS)
        if not known and (near := find_nearest(node.attr, module or METHODS)):
            yield stop.replace(node, ast.Attribute(node.value, near))


def _spell_own(stop: Stop, scope: Scope, node: ast.Attribute) -> Iterator[Edit]:
    """Yield what is meant by an attribute of `self`, if nothing sets it."""
    known = _list_attributes(scope.class_)
    if node.attr in known | ATTRIBUTES_OF_MODULES:
        return
    body = scope.class_.body if scope.class_ is not None else ()
    functions = (each for each in body if isinstance(each, ast.FunctionDef))
    for start in (each for each in functions if each.name == "__init__"):
        first = _find_simple(start)
        if first is not None and node.attr in {given.arg for given in start.args.args}:
            end = first.end_lineno or 0, first.end_col_offset or 0
            kept = f"self.{node.attr} = {node.attr}"
            yield insert(stop.site.cell, *end, f"; {kept}", kept)
            return
    if node.attr in scope.own:
        yield stop.replace(node, ast.Name(node.attr))
    elif near := find_nearest(node.attr, known):
        yield stop.replace(node, ast.Attribute(node.value, near))


def _list_attributes(node: ast.ClassDef | None) -> frozenset[str]:
    """Return the attributes that a class sets, registers or defines."""
    walked = [] if node is None else list(ast.walk(node))
    stored = {n.attr for n in walked if isinstance(n, ast.Attribute) and _is_stored(n)}
    stored |= {n.name for n in walked if isinstance(n, ast.FunctionDef) and n.name != "__init__"}
    calls = (n for n in walked if isinstance(n, ast.Call) and n.args)
    named = (n.args[0] for n in calls if _name(n.func).startswith("register_"))
    return frozenset(stored).union(str(n.value) for n in named if isinstance(n, ast.Constant))


def _spell_keywords(stop: Stop) -> Iterator[Edit]:
    """Yield torch's arguments for those that torch does not have: `dims` for `dim`."""
    for node in (each.node for each in stop.at if isinstance(each.node, ast.Call)):
        for i, given in enumerate(node.keywords):
            near = None if given.arg in KEYWORDS else find_nearest(given.arg or "", KEYWORDS)
            if near is not None:
                meant = ast.keyword(near, given.value)
                rest = [*node.keywords[:i], meant, *node.keywords[i + 1 :]]
                yield stop.replace(node, ast.Call(node.func, node.args, rest))


# ---------------------------------------------------------------------------------- calls


def _remove_left_behind(stop: Stop) -> Iterator[Edit]:
    """Yield `pass` for a statement of the starter that raises because nothing is written yet."""
    for node in (each.node for each in stop.at if isinstance(each.node, ast.Raise)):
        if "NotImplemented" in ast.unparse(node):
            yield stop.replace(node, ast.Pass())


def _correct_brackets(stop: Stop) -> Iterator[Edit]:
    """Yield `x.shape[0]` for `x.shape(0)`, and `x.dtype` for `x.dtype()`."""
    for node in (each.node for each in stop.at if isinstance(each.node, ast.Call)):
        if _name(node.func) in ("shape", "dtype", "device") and len(node.args) <= 1:
            by = ast.Subscript(node.func, node.args[0]) if node.args else node.func
            yield stop.replace(node, by)


def _call_methods(stop: Stop) -> Iterator[Edit]:
    """Yield calls of the methods of tensors of which only the names are written."""
    for each in stop.near:
        node = each.node
        if not isinstance(node, ast.Attribute) or _is_stored(node) or _is_called(each):
            continue
        method = callable(getattr(torch.Tensor, node.attr, None))
        if method and not _is_own(node) and _name(node.value) not in {*MODULES, *IMPORTS}:
            yield stop.replace(node, ast.Call(node, [], []))


def _apply_layers(stop: Stop) -> Iterator[Edit]:
    """Yield the call of a layer on the input, where it stands alone: `keys = self.W_key`."""
    for each in stop.near:
        node, function = each.node, each.function
        if not isinstance(node, ast.Assign) or function is None or function.name == "__init__":
            continue
        given = function.args.args[1 : len(function.args.args) - len(function.args.defaults)]
        values = node.value.elts if isinstance(node.value, ast.Tuple) else [node.value]
        for layer in values if len(given) == 1 else ():
            if _is_own(layer) and _is_layer(_name(layer), each.class_):
                yield stop.replace(layer, ast.Call(layer, [ast.Name(given[0].arg)], []))


def _is_layer(name: str, around: ast.ClassDef | None) -> bool:
    """Whether a class sets an attribute to an object of some class that is no parameter."""
    walked = ast.walk(around or ast.Module([], []))
    values = [n.value for n in walked if isinstance(n, ast.Assign) and _name(n.targets[0]) == name]
    made = [_name(value.func) for value in values if isinstance(value, ast.Call)]
    return any(each[:1].isupper() and each != "Parameter" for each in made)


def _transpose_matrices(stop: Stop) -> Iterator[Edit]:
    """Yield `x.mT` for `x.T`, which turns the axes of a batch of matrices around."""
    for node in (each.node for each in stop.near if isinstance(each.node, ast.Attribute)):
        if node.attr in ("T", "H"):
            yield stop.replace(node, ast.Attribute(node.value, f"m{node.attr}"))


def _copy_memory(stop: Stop) -> Iterator[Edit]:
    """Yield `reshape` for `view`, which requires the numbers in the order of their axes."""
    for node in (each.node for each in stop.at if isinstance(each.node, ast.Attribute)):
        if node.attr == "view":
            yield stop.replace(node, ast.Attribute(node.value, "reshape"))


def _make_masks_boolean(stop: Stop) -> Iterator[Edit]:
    """Yield `mask.bool()` for the masks of `masked_fill`, which takes no others."""
    for node in (each.node for each in stop.at if isinstance(each.node, ast.Call)):
        if _name(node.func).startswith("masked_fill") and node.args:
            mask = ast.Call(ast.Attribute(node.args[0], "bool"), [], [])
            yield stop.replace(node, ast.Call(node.func, [mask, *node.args[1:]], node.keywords))


KINDS: tuple[Callable[[Stop], Iterator[Edit]], ...] = (
    _name_methods,
    _add_self,
    _call_parent,
    _spell_names,
    _spell_attributes,
    _return_result,
    _remove_left_behind,
    _correct_brackets,
    _call_methods,
    _apply_layers,
    _spell_keywords,
    _transpose_matrices,
    _copy_memory,
    _make_masks_boolean,
)
"""the kinds of slips, in the order in which they are looked for"""
