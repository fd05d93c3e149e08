"""Find the tensors that were not moved with their module, and name them as their author did.

`.to()` moves parameters and buffers. Any other tensor that a call uses is either kept, as an
attribute or a global, or made in the call itself. Storages tell these cases apart: a view shares
the storage of its base, and the result of an operation is traced back to its operands.
"""

import functools
import types
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

MAX_DEPTH = 5
"""the most steps from the module to a tensor"""
MAX_NAMED = 4
"""the most tensors that are named"""
REGISTRIES = ("_parameters", "_buffers", "_modules")
MODULE_ATTRIBUTES = frozenset(vars(nn.Module())) - frozenset(REGISTRIES)
COPY_OPS = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
"""operations that may take tensors with two devices or dtypes, since they convert between them"""


@dataclass(frozen=True)
class Origin:
    """The origin of a tensor: kept under a name, moved back in the call, or made in it."""

    path: str = ""
    is_global: bool = False
    is_parameter: bool = False
    brought: bool = False
    made: bool = False

    @property
    def kept(self) -> bool:
        """Whether the tensor existed before the call."""
        return bool(self.path)

    @property
    def advice(self) -> str:
        """The reason why the tensor was not moved, and what to do."""
        if self.is_parameter:
            return (
                "nothing registers it. Keep modules in nn.ModuleList, parameters in `self` or in "
                "nn.ParameterList"
            )
        if self.is_global:
            return "it is no part of the module. Make it in the call, from x.device and x.dtype"
        if self.kept:
            name = self.path.rpartition(".")[2]
            return (
                ".to() moves parameters and buffers, not other attributes. Keep it with "
                f'self.register_buffer("{name}", ...)'
            )
        if self.brought:
            return "the call brought it there. Bring it back with .to(x.device)"
        if self.made:
            return (
                "the call made it there. Make it with device=x.device, or bring it over with "
                ".to(x.device)"
            )
        return "no parameter or buffer holds it. Bring it there with .to(x.device)"


class UnmovedTracker:
    """Traces the tensors of one call back to their origins."""

    def __init__(self, root: object, namespace: Mapping[str, Any]) -> None:
        self.root = root
        self.namespace = namespace
        self.messages: list[str] = []
        """one sentence for each tensor that was not moved and was combined with moved ones without
        an error"""
        self._sources: dict[int, tuple[Tensor, ...]] = {}
        self._alive: list[Tensor] = []
        """tensors kept alive, so that no new storage gets the key of an old one"""

    def note_result(self, result: object, operands: Iterable[Tensor]) -> None:
        """Record the operands from which an operation in this call computed its result."""
        sources = tuple(operands)
        known = {get_storage_key(tensor) for tensor in sources if not tensor.is_meta}
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and get_storage_key(tensor) not in known:
                self._sources.setdefault(get_storage_key(tensor), sources)
                self._alive.append(tensor)

    def find_origin(self, tensor: Tensor) -> Origin:
        """Return a tensor's origin: the kept tensor from which it was computed, if any."""
        roots = list(self._iter_roots(tensor))
        keys = {get_storage_key(root) for root in roots if not root.is_meta}
        for origin, kept in self._iter_kept():
            if get_storage_key(kept) in keys:
                return origin
        brought = any(root.is_meta for root in roots)
        return Origin(brought=brought, made=not brought and not roots)

    def describe(self, tensor: Tensor, state: str) -> str:
        """Describe a tensor and its state in one sentence."""
        origin = self.find_origin(tensor)
        shape = f"of shape {tuple(tensor.shape)}"
        article = "the global " if origin.is_global else ""
        name = f"{article}`{origin.path}`, {shape}," if origin.kept else f"a tensor {shape}"
        return f"{name} {state}: {origin.advice}"

    def note_encounter(self, tensor: Tensor, state: str) -> None:
        """Record a kept tensor that was not moved but was combined with moved ones."""
        if len(self.messages) < MAX_NAMED and self.find_origin(tensor).kept:
            sentence = self.describe(tensor, state)
            if sentence not in self.messages:
                self.messages.append(sentence)

    def _iter_roots(self, tensor: Tensor) -> Iterator[Tensor]:
        """Yield the tensors from outside this call from which a tensor was computed."""
        todo, seen = [tensor], set[int]()
        while todo:
            each = todo.pop()
            if each.is_meta:
                yield each
            elif (key := get_storage_key(each)) not in seen:
                seen.add(key)
                if key in self._sources:
                    todo.extend(self._sources[key])
                else:
                    yield each

    def _iter_kept(self) -> Iterator[tuple[Origin, Tensor]]:
        seen = set[int]()
        for path, tensor in iter_tensors(self.root, "", seen):
            yield Origin(path, is_parameter=isinstance(tensor, nn.Parameter)), tensor
        for owner in list_author_classes(self.root):
            for path, tensor in iter_tensors(dict(vars(owner)), owner.__name__, seen, 2):
                yield Origin(path), tensor
        for name, value in self.namespace.items():
            if isinstance(value, Tensor | list | tuple | dict):
                for path, tensor in iter_tensors(value, name, seen, 2):
                    yield Origin(path, is_global=True), tensor


def get_storage_key(tensor: Tensor) -> int:
    """Return a key that a tensor shares only with its views."""
    if tensor.layout is not torch.strided:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


def list_author_classes(root: object) -> list[type]:
    """Return those classes of a module and its submodules that the module's author wrote."""
    parts = root.modules() if isinstance(root, nn.Module) else [root]
    classes = dict.fromkeys(owner for part in parts for owner in type(part).__mro__)
    return [owner for owner in classes if not owner.__module__.startswith(("torch", "builtins"))]


def iter_tensors(
    value: object, path: str, seen: set[int], depth: int = MAX_DEPTH
) -> Iterator[tuple[str, Tensor]]:
    """Yield the tensors that can be reached from a value, each with its path."""
    if isinstance(value, Tensor):
        yield path, value
    elif depth and id(value) not in seen:
        seen.add(id(value))
        for name, part in _iter_parts(value):
            yield from iter_tensors(part, f"{path}.{name}" if path else name, seen, depth - 1)


def _iter_parts(value: object) -> Iterator[tuple[str, object]]:
    if isinstance(value, nn.Module):
        for registry in REGISTRIES:
            yield from vars(value).get(registry, {}).items()
        skipped = MODULE_ATTRIBUTES.union(REGISTRIES)
        yield from ((name, part) for name, part in vars(value).items() if name not in skipped)
    elif isinstance(value, dict):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(number), part) for number, part in enumerate(value))
    elif not isinstance(value, type | types.ModuleType) and hasattr(value, "__dict__"):
        yield from vars(value).items()


class UncompiledDispatchMode(TorchDispatchMode):
    """A mode that torch does not hide from its compiler: hiding it would import the compiler."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class MixedDtypeMode(UncompiledDispatchMode):
    """Finds kept tensors whose floating-point dtype differs from the moved module's dtype.

    An operation on both dtypes either promotes its result or raises. But an operation that writes
    into a tensor of the module's dtype does neither. Tensors without an axis are treated as plain
    numbers.
    """

    def __init__(self, unmoved: UnmovedTracker, dtype: torch.dtype) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.unmoved = unmoved
        self.dtype = dtype

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        leaves = tree_leaves((args, kwargs))
        others = [leaf for leaf in leaves if self._is_other(leaf)]
        try:
            result = func(*args, **(kwargs or {}))
        except RuntimeError as refusal:
            for tensor in others:
                if self.unmoved.find_origin(tensor).kept:
                    sentence = self.unmoved.describe(tensor, _describe_dtype(tensor))
                    raise RuntimeError(f"{refusal}; {sentence}") from refusal
            raise
        if others and self._is_other(result):
            self.unmoved.note_result(result, others)
        elif others and isinstance(result, Tensor) and result.dtype == self.dtype:
            may_mix = func in COPY_OPS or find_written_arguments(func)
            for tensor in () if may_mix else others:
                self.unmoved.note_encounter(tensor, _describe_dtype(tensor))
        return result

    def _is_other(self, value: object) -> bool:
        if not isinstance(value, Tensor) or not value.is_floating_point():
            return False
        return value.dtype != self.dtype and value.dim() > 0


def _describe_dtype(tensor: Tensor) -> str:
    return f"is still {str(tensor.dtype).removeprefix('torch.')}"


@functools.cache
def find_written_arguments(operation: Any) -> frozenset[str]:
    """Return the names of the arguments into which an operation writes."""
    return frozenset(
        argument.name
        for argument in operation._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    )
