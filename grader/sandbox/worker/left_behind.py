"""Tensors that stayed behind when a module moved, by the names that their author gave them.

`.to()` moves parameters and buffers. Anything else that a call works with is kept somewhere, as an
attribute or a global, or was made in the call itself. Storages tell which: a view has that of its
base, and what an operation makes of a tensor is traced back to it.
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
"""so many steps from the module to a tensor are followed"""
MAX_NAMED = 4
"""so many tensors are named"""
REGISTRIES = ("_parameters", "_buffers", "_modules")
MODULE_ATTRIBUTES = frozenset(vars(nn.Module())) - frozenset(REGISTRIES)
COPY_OPS = (torch.ops.aten._to_copy.default, torch.ops.aten.copy_.default)
"""what may take tensors of two kinds: it brings one to the other"""


@dataclass(frozen=True)
class Origin:
    """Where a tensor comes from: kept under a name, brought over in the call, or made in it."""

    path: str = ""
    is_global: bool = False
    is_parameter: bool = False
    brought: bool = False
    made: bool = False

    @property
    def kept(self) -> bool:
        """Whether it was there before the call."""
        return bool(self.path)

    @property
    def advice(self) -> str:
        """Why it did not move, and what to do."""
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
    """Follows the tensors of one call back to where they come from."""

    def __init__(self, root: object, namespace: Mapping[str, Any]) -> None:
        self.root = root
        self.namespace = namespace
        self.messages: list[str] = []
        """what met the tensors that moved, where torch does not refuse it"""
        self._sources: dict[int, tuple[Tensor, ...]] = {}
        self._alive: list[Tensor] = []
        """so that no storage is taken for another one that lay there before"""

    def note_result(self, result: object, operands: Iterable[Tensor]) -> None:
        """Remember what an operation of this call made of which tensors."""
        sources = tuple(operands)
        known = {get_storage_key(tensor) for tensor in sources if not tensor.is_meta}
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor) and get_storage_key(tensor) not in known:
                self._sources.setdefault(get_storage_key(tensor), sources)
                self._alive.append(tensor)

    def note_created(self, tensor: Tensor) -> None:
        """Remember that this call made a tensor of plain numbers."""
        self._sources.setdefault(get_storage_key(tensor), ())
        self._alive.append(tensor)

    def find_origin(self, tensor: Tensor) -> Origin:
        """Where it comes from: from a kept tensor, if any of its sources is one."""
        roots = list(self._iter_roots(tensor))
        there = {get_storage_key(root) for root in roots if not root.is_meta}
        for origin, kept in self._iter_kept():
            if get_storage_key(kept) in there:
                return origin
        brought = any(root.is_meta for root in roots)
        return Origin(brought=brought, made=not brought and not roots)

    def describe(self, tensor: Tensor, state: str) -> str:
        """One sentence about a tensor that is in this state."""
        origin = self.find_origin(tensor)
        shape = f"of shape {tuple(tensor.shape)}"
        of = "the global " if origin.is_global else ""
        name = f"{of}`{origin.path}`, {shape}," if origin.kept else f"a tensor {shape}"
        return f"{name} {state}: {origin.advice}"

    def note_encounter(self, tensor: Tensor, state: str) -> None:
        """Remember a kept tensor that met others though it had not moved."""
        if len(self.messages) < MAX_NAMED and self.find_origin(tensor).kept:
            sentence = self.describe(tensor, state)
            if sentence not in self.messages:
                self.messages.append(sentence)

    def _iter_roots(self, tensor: Tensor) -> Iterator[Tensor]:
        """The tensors, not made in this call, that it was computed from."""
        waiting, seen = [tensor], set[int]()
        while waiting:
            each = waiting.pop()
            if each.is_meta:
                yield each
            elif get_storage_key(each) not in seen:
                seen.add(get_storage_key(each))
                if get_storage_key(each) in self._sources:
                    waiting.extend(self._sources[get_storage_key(each)])
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
    """What a tensor has in common with its views only."""
    if tensor.layout is not torch.strided:
        return id(tensor)
    return int(tensor.untyped_storage()._cdata)


def list_author_classes(root: object) -> list[type]:
    """The classes, written by the author, of a module and of those in it."""
    parts = root.modules() if isinstance(root, nn.Module) else [root]
    found = dict.fromkeys(owner for part in parts for owner in type(part).__mro__)
    return [owner for owner in found if not owner.__module__.startswith(("torch", "builtins"))]


def iter_tensors(
    value: object, path: str, seen: set[int], depth: int = MAX_DEPTH
) -> Iterator[tuple[str, Tensor]]:
    """The tensors that can be reached from a value, each with its path."""
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
        yield from (
            (n, part)
            for n, part in vars(value).items()
            if n not in MODULE_ATTRIBUTES | {*REGISTRIES}
        )
    elif isinstance(value, dict):
        yield from ((str(key), part) for key, part in value.items())
    elif isinstance(value, list | tuple):
        yield from ((str(number), part) for number, part in enumerate(value))
    elif not isinstance(value, type | types.ModuleType) and hasattr(value, "__dict__"):
        yield from vars(value).items()


class UncompiledDispatchMode(TorchDispatchMode):
    """A mode that torch does not hide from its compiler: to hide it would import the compiler."""

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        return False


class MixedDtypeMode(UncompiledDispatchMode):
    """Notices kept tensors of another floating-point dtype than the module was moved to.

    An operation that takes both promotes its result, or refuses. One that writes into a tensor of
    the right dtype does neither, and a number (a tensor without an axis) takes part in neither.
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
                    told = self.unmoved.describe(tensor, _describe_dtype(tensor))
                    raise RuntimeError(f"{refusal}; {told}") from refusal
            raise
        if others and self._is_other(result):
            self.unmoved.note_result(result, others)
        elif others and isinstance(result, Tensor) and result.dtype == self.dtype:
            for tensor in (
                others if func not in COPY_OPS and not find_written_arguments(func) else ()
            ):
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
    """The arguments that an operation writes into, by name."""
    return frozenset(
        argument.name
        for argument in operation._schema.arguments
        if argument.alias_info is not None and argument.alias_info.is_write
    )
