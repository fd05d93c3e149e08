"""Get and set the tensors of a module by attribute path, registered or not.

`heads.0.query_W` is followed through attributes, list items and dictionary keys, so that a tensor
that its author forgot to register can be read and set like any other.
"""

import copy
import functools
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence

import torch
from torch import Tensor, nn

from headcheck.grader.sandbox.operations import DescribedTensor


class NoSuchTensor(Exception):
    """A path leads to no tensor."""


def find(root: object, path: str) -> Tensor | None:
    """Return the tensor at a path; None if there is none."""
    try:
        value = functools.reduce(_step, path.split("."), root)
    except NoSuchTensor:
        return None
    return value if isinstance(value, Tensor) else None


def put(root: object, path: str, value: Tensor) -> None:
    """Set the values of a parameter, or replace a plain tensor with another.

    Raises NoSuchTensor if there is no tensor at the path.
    """
    *parents, last = path.split(".")
    parent = functools.reduce(_step, parents, root)
    old = _step(parent, last)
    if isinstance(old, nn.Parameter):
        # In place where possible, so that views of the parameter see the new values.
        if old.shape == value.shape and old.dtype == value.dtype:
            old.data.copy_(value)
        else:
            old.data = value.to(old.device)
    elif not isinstance(old, Tensor):
        raise NoSuchTensor(f"`{path}` is no tensor")
    elif isinstance(parent, list):
        parent[int(last)] = value
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        setattr(parent, last, value)


def exchange(root: object, path: str, value: Tensor) -> None:
    """Replace a parameter with a new one, as code that loads weights by hand may do.

    A tensor that is not a parameter is set as by `put`. Raises NoSuchTensor.
    """
    *parents, last = path.split(".")
    parent = functools.reduce(_step, parents, root)
    if isinstance(parent, nn.Module) and parent._parameters.get(last) is not None:
        setattr(parent, last, nn.Parameter(value.clone()))
    else:
        put(root, path, value)


def exchange_layer(root: object, path: str, value: Tensor) -> None:
    """Replace the layer that holds a parameter with a copy, and put the value into the copy.

    A tensor that no layer of a module holds is set as by `put`. Raises NoSuchTensor.
    """
    *parents, name, _ = ["", *path.split(".")]
    holder = functools.reduce(_step, parents[1:], root) if name else None
    if isinstance(holder, nn.Module) and holder._modules.get(name) is not None:
        setattr(holder, name, copy.deepcopy(holder._modules[name]))
    put(root, path, value)


def silence(root: object, paths: Sequence[str]) -> None:
    """Set the parameters at these paths to zero, and keep them at zero."""
    for path in paths:
        tensor = find(root, path)
        if isinstance(tensor, nn.Parameter):
            tensor.data.zero_()
    keep_zero(root, paths)


def keep_zero(root: object, paths: Sequence[str]) -> None:
    """Keep training from changing those parameters at these paths that are zero.

    A parameter that is later set to other numbers is trained as usual. Call this again for copies.
    """
    for path in paths:
        tensor = find(root, path)
        if isinstance(tensor, nn.Parameter) and tensor.requires_grad:
            tensor.register_hook(functools.partial(_hide_from_zero, weakref.ref(tensor)))


def _hide_from_zero(parameter: Callable[[], Tensor | None], gradient: Tensor) -> Tensor:
    own = parameter()
    return gradient if own is None or bool(own.any()) else torch.zeros_like(gradient)


def prepare_leaves(root: object, paths: Sequence[str]) -> dict[str, Tensor]:
    """Return the tensors at these paths, registered or not, ready to receive gradients."""
    leaves = {}
    for path in paths:
        tensor = find(root, path)
        if tensor is not None and tensor.is_leaf and tensor.is_floating_point():
            tensor.requires_grad_(True)
            leaves[path] = tensor
    return leaves


def describe_registered(target: object) -> dict[str, DescribedTensor]:
    """Describe the parameters and buffers of a module; return nothing for any other object."""
    if not isinstance(target, nn.Module):
        return {}
    # Torch's own methods are called: the module's may be overridden, and hide some.
    parameters = nn.Module.named_parameters(target, remove_duplicate=False)
    buffers = nn.Module.named_buffers(target, remove_duplicate=False)
    described = {name: _describe("parameter", tensor) for name, tensor in parameters}
    return described | {name: _describe("buffer", tensor) for name, tensor in buffers}


MAX_DEPTH = 3
MAX_UNREGISTERED = 200


def describe_unregistered(target: object) -> dict[str, DescribedTensor]:
    """Describe the tensors that a module holds without having registered them."""
    if not isinstance(target, nn.Module):
        return {}
    found: dict[str, DescribedTensor] = {}
    for prefix, module in nn.Module.named_modules(target):
        for name, value in vars(module).items():
            if not name.startswith("_"):
                path = f"{prefix}.{name}" if prefix else name
                for place, tensor in _iter_tensors(value, path, MAX_DEPTH):
                    if len(found) < MAX_UNREGISTERED:
                        found[place] = _describe("unregistered", tensor)
    return found


def _iter_tensors(value: object, path: str, depth: int) -> Iterator[tuple[str, Tensor]]:
    """Yield the floating-point tensors in a value that is not a registered module."""
    if isinstance(value, Tensor) and value.is_floating_point():
        yield path, value
    elif isinstance(value, nn.Module):
        for name, parameter in nn.Module.named_parameters(value):
            yield f"{path}.{name}", parameter
    elif isinstance(value, dict | list | tuple) and depth:
        items = value.items() if isinstance(value, dict) else enumerate(value)
        for key, item in items:
            yield from _iter_tensors(item, f"{path}.{key}", depth - 1)


def _describe(kind: str, tensor: Tensor) -> DescribedTensor:
    return DescribedTensor(
        kind,
        tuple(tensor.shape),
        str(tensor.dtype).removeprefix("torch."),
        str(tensor.device),
        bool(tensor.requires_grad),
        tensor.is_leaf and tensor.grad is not None,
    )


KEYED_TYPES = (dict, nn.ModuleDict, nn.ParameterDict, Mapping)
INDEXED_TYPES = (list, tuple, nn.ModuleList, nn.ParameterList, nn.Sequential)
MISSING = object()


def _step(parent: object, name: str) -> object:
    if (
        isinstance(parent, nn.Module)
        and name not in vars(parent)
        and not hasattr(type(parent), name)
    ):
        # A layer or one of its parameters, as usual: found faster than by what follows.
        for registry in (parent._modules, parent._parameters):
            if registry.get(name) is not None:
                return registry[name]
    if isinstance(parent, KEYED_TYPES) and name in parent:
        return parent[name]
    value: object
    if name.isdigit() and isinstance(parent, INDEXED_TYPES):
        value = parent[int(name)] if int(name) < len(parent) else MISSING
    else:
        value = getattr(parent, name, MISSING)
    if value is MISSING:
        raise NoSuchTensor(f"there is no `{name}`")
    return value
