"""Infer from a module's constructor which of its attributes hold plain (unregistered) tensors.

The factories of torch (`torch.randn(…)`) make tensors, and so do arithmetic, indexing, torch's
functions and tensor methods when applied to one. Local variables are followed in source order. The
results of other calls (`nn.Parameter(…)`, a helper) do not count as plain tensors.
"""

import ast
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from headcheck.grader.reading.effects import iter_scope_nodes

_FACTORY_NAMES = (
    "arange bernoulli empty empty_like eye FloatTensor from_numpy full full_like linspace "
    "normal ones ones_like rand rand_like randint randn randn_like randperm tensor Tensor zeros "
    "zeros_like"
)
_FACTORIES = frozenset(_FACTORY_NAMES.split())
_NON_TENSOR_METHOD_NAMES = (
    "allclose data_ptr dim element_size equal is_contiguous is_floating_point item ndimension "
    "nelement numel numpy size stride tolist type"
)
_NON_TENSOR_METHODS = frozenset(_NON_TENSOR_METHOD_NAMES.split())
_TENSOR_ATTRIBUTES = frozenset({"H", "T", "data", "imag", "mH", "mT", "real"})


def find_plain_tensors(
    constructor: ast.FunctionDef | ast.AsyncFunctionDef, imports: Iterable[ast.AST]
) -> dict[str, int]:
    """Return the attributes of `self` that end up as plain tensors, with their lines.

    `imports` are the statements that give `torch` and its functions their names.
    """
    positional = [*constructor.args.posonlyargs, *constructor.args.args]
    self_name = positional[0].arg if positional else None
    found: dict[str, int] = {}
    inference = _build_inference(imports)
    for target, value in _iter_assignments(constructor):
        is_tensor = inference.is_tensor(value)
        match target:
            case ast.Name(id=name):
                (inference.locals.add if is_tensor else inference.locals.discard)(name)
            case ast.Attribute(value=ast.Name(id=name), attr=attribute) if name == self_name:
                found.pop(attribute, None)
                if is_tensor:
                    found[attribute] = target.lineno
    return found


def _iter_assignments(function: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    for node in iter_scope_nodes(ast.iter_child_nodes(function)):
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _iter_pairs(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value):
                yield target, value


def _iter_pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Yield targets with their values, element by element for `a, b = x, y`."""
    sequence = (ast.Tuple, ast.List)
    if not isinstance(target, sequence):
        yield target, value
    elif isinstance(value, sequence) and len(value.elts) == len(target.elts):
        yield from zip(target.elts, value.elts, strict=True)


@dataclass(slots=True)
class _TensorInference:
    """Infers whether an expression is a tensor from the names of torch and of local tensors."""

    torch: set[str] = field(default_factory=set)
    factories: set[str] = field(default_factory=set)
    locals: set[str] = field(default_factory=set)

    def is_tensor(self, value: ast.expr) -> bool:
        match value:
            case ast.Name(id=name):
                return name in self.locals
            case ast.BinOp(left=left, right=right):
                return self.is_tensor(left) or self.is_tensor(right)
            case ast.UnaryOp(operand=part) | ast.Subscript(value=part):
                return self.is_tensor(part)
            case ast.Attribute(value=part, attr=attribute):
                return attribute in _TENSOR_ATTRIBUTES and self.is_tensor(part)
            case ast.Call(func=ast.Name(id=name)):
                return name in self.factories
            case ast.Call(func=ast.Attribute(value=owner, attr=method), args=arguments):
                if isinstance(owner, ast.Name) and owner.id in self.torch:
                    makes = method in _FACTORIES
                    return makes or self._returns_tensor(method, arguments)
                return self._returns_tensor(method, [owner])
        return False

    def _returns_tensor(self, method: str, parts: list[ast.expr]) -> bool:
        return method not in _NON_TENSOR_METHODS and any(self.is_tensor(part) for part in parts)


def _build_inference(imports: Iterable[ast.AST]) -> _TensorInference:
    inference = _TensorInference()
    for node in imports:
        match node:
            case ast.Import(names=names):
                inference.torch |= {alias.asname or "torch" for alias in names if _is_torch(alias)}
            case ast.ImportFrom(module="torch", names=names):
                found = {alias.asname or alias.name for alias in names if alias.name in _FACTORIES}
                inference.factories |= found
    return inference


def _is_torch(alias: ast.alias) -> bool:
    return alias.name == "torch" or (alias.asname is None and alias.name.startswith("torch."))
