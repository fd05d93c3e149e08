"""Find the values that expressions had when a line failed, as far as they are known.

This runs no code of the submission. Names and attributes are looked up where Python keeps them.
Operations on tensors are repeated on tensors without values, with the same shape, strides and
dtype.
"""

import ast
import builtins
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

UNKNOWN: Any = object()
"""the value of an expression that could be known only by running it"""
PLAIN_TENSORS = (Tensor, nn.Parameter, nn.Buffer)
NUMBERS = (int, float, bool)
REGISTRIES = ("_parameters", "_buffers", "_modules")
OPERATORS: Mapping[type[ast.operator], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.MatMult: operator.matmul,
}
COMPARISONS: Mapping[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
METHODS = (
    *("bool", "contiguous", "dim", "double", "expand", "flatten", "float", "int", "long"),
    *("masked_fill", "matmul", "permute", "reshape", "size", "softmax", "split", "squeeze", "t"),
    *("transpose", "tril", "triu", "unsqueeze", "view", "chunk", "sum", "mean", "logical_not"),
)
"""methods of tensors whose result has a shape that does not depend on values"""
FUNCTIONS: tuple[Callable[..., Any], ...] = (
    torch.matmul,
    torch.softmax,
    torch.tril,
    torch.triu,
    torch.transpose,
    functional.softmax,
    math.sqrt,
)
"""functions whose results also have such a shape, or that take only numbers"""
CREATORS: tuple[Callable[..., Any], ...] = (torch.ones, torch.zeros, torch.rand, torch.randn)


def is_tensor(value: object) -> bool:
    """Whether a value is a tensor of one of torch's own types, whose attributes can be trusted."""
    return type(value) in PLAIN_TENSORS


def is_one_of(value: object, functions: Iterable[object]) -> bool:
    """Whether a value is identical to one of these functions; the value's own `==` is not used."""
    return any(value is function for function in functions)


def sketch(tensor: Tensor) -> Tensor:
    """Return a tensor without values that has the same shape, strides and dtype."""
    shape, strides = tuple(tensor.shape), tensor.stride()
    return torch.empty_strided(shape, strides, dtype=tensor.dtype, device="meta")


@dataclass(frozen=True)
class Values:
    """The variables of a frame and of its enclosing frames, the innermost first."""

    scopes: Sequence[Mapping[str, Any]]

    def find(self, node: ast.AST | None) -> Any:
        """Return the value of an expression, or UNKNOWN."""
        match node:
            case ast.Constant(value=value):
                return value
            case ast.Name(id=name):
                return self.find_name(name)
            case ast.Attribute(value=base, attr=attr):
                return find_attribute(self.find(base), attr)
            case ast.Tuple(elts=parts) | ast.List(elts=parts):
                values = [self.find(part) for part in parts]
                if any(value is UNKNOWN for value in values):
                    return UNKNOWN
                return tuple(values) if isinstance(node, ast.Tuple) else values
            case ast.UnaryOp() | ast.BinOp() | ast.Compare() | ast.Subscript() | ast.Call():
                # Torch and Python refuse here what they refuse there.
                try:
                    return self._compute(node)
                except Exception:
                    return UNKNOWN
        return UNKNOWN

    def find_tensor(self, node: ast.AST | None) -> Tensor | None:
        """Return an expression's tensor, perhaps without numbers; None if it is unknown."""
        value = self.find(node)
        return value if is_tensor(value) else None

    def find_name(self, name: str) -> Any:
        """Return the value of a variable, or UNKNOWN."""
        for scope in (*self.scopes, vars(builtins)):
            if name in scope:
                return scope[name]
        return UNKNOWN

    def _compute(self, node: ast.expr) -> Any:
        match node:
            case ast.UnaryOp(op=ast.USub(), operand=operand):
                return -self._known(operand)
            case ast.UnaryOp(op=ast.Invert(), operand=operand):
                return ~self._known(operand)
            case ast.BinOp(left=left, op=op, right=right) if type(op) in OPERATORS:
                return OPERATORS[type(op)](self._known(left), self._known(right))
            case ast.Compare(left=left, ops=[op], comparators=[right]) if type(op) in COMPARISONS:
                return COMPARISONS[type(op)](self._known(left), self._known(right))
            case ast.BinOp(left=left, op=ast.Pow(), right=right):
                return math.pow(self._known(left), self._known(right))
            case ast.Subscript(value=base, slice=index):
                return self._find_item(self.find(base), index)
            case ast.Call():
                return self._call(node)
        return UNKNOWN

    def _known(self, node: ast.expr) -> Any:
        """Return a number, or a tensor without values. Raises TypeError for anything else."""
        value = self.find(node)
        if is_tensor(value):
            return sketch(value)
        if type(value) in NUMBERS:
            return value
        raise TypeError(f"{type(value).__name__} is not computed with")

    def _find_item(self, base: Any, index: ast.expr) -> Any:
        if is_tensor(base):
            return sketch(base)[self._find_index(index)]
        key = self.find(index)
        if type(base) in (list, tuple, torch.Size, dict) and type(key) in (int, str):
            return base[key]
        if type(base) is nn.ModuleList and type(key) is int:
            return list(vars(base)["_modules"].values())[key]
        return UNKNOWN

    def _find_index(self, node: ast.expr) -> Any:
        """Return an index of whole numbers and slices. Raises TypeError for any other."""
        match node:
            case ast.Tuple(elts=parts):
                return tuple(self._find_index(part) for part in parts)
            case ast.Slice(lower=lower, upper=upper, step=step):
                return slice(*(None if n is None else self._known(n) for n in (lower, upper, step)))
            case ast.Constant(value=None) | ast.Constant(value=builtins.Ellipsis):
                return node.value
        return self._known(node)

    def _call(self, node: ast.Call) -> Any:
        """Return the result of a call of a layer or function of torch."""
        match node.func:
            case ast.Attribute(value=base, attr=name) if name in METHODS:
                tensor = self.find_tensor(base)
                if tensor is not None:
                    return getattr(sketch(tensor), name)(*self._list(node), **self._by_name(node))
        function = self.find(node.func)
        if is_one_of(function, FUNCTIONS):
            return function(*self._list(node), **self._by_name(node))
        if is_one_of(function, CREATORS):
            return function(*self._list(node), device="meta")
        if type(function) is nn.Linear:
            [x] = self._list(node)
            return x @ sketch(function.weight).T
        if type(function) in (nn.Dropout, nn.Softmax):
            return self._list(node)[0]
        return UNKNOWN

    def _list(self, node: ast.Call) -> list[Any]:
        return [self._known(argument) for argument in node.args]

    def _by_name(self, node: ast.Call) -> dict[str, Any]:
        return {each.arg: self._known(each.value) for each in node.keywords if each.arg}


def find_attribute(base: Any, name: str) -> Any:
    """Return an attribute, or UNKNOWN if reading it would run the submission's code."""
    if is_tensor(base):
        if name == "T":
            return sketch(base).permute(*reversed(range(base.dim())))
        return getattr(base, name) if name in ("mT", "shape", "ndim", "dtype") else UNKNOWN
    if isinstance(base, ModuleType):
        return vars(base).get(name, UNKNOWN)
    return list_attributes(base).get(name, UNKNOWN)


def list_attributes(base: Any) -> dict[str, Any]:
    """Return the attributes of an object by name, including what a module has registered."""
    try:
        own = object.__getattribute__(base, "__dict__")
    except AttributeError:
        return {}
    inherited = {
        name: value
        for owner in reversed(type(base).__mro__)
        for name, value in vars(owner).items()
        if type(value) in NUMBERS or is_tensor(value)
    }
    found = {**inherited, **own}
    for registry in REGISTRIES if isinstance(base, nn.Module) else ():
        found.update(own.get(registry, {}))
    return found
