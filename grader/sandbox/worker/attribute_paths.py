"""Attribute paths: the tensors of a module by name, whether or not they are registered.

`heads.0.query_W` is followed through attributes, list items and dictionary keys, so that a tensor
that its author forgot to register can be read and set like any other.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor, nn


class NoSuchTensor(Exception):
    """A path that leads to no tensor."""


def find(root: object, path: str) -> Tensor | None:
    """The tensor at a path, if there is one."""
    try:
        *parents, last = path.split(".")
        found = _step(_walk(root, parents), last)
    except NoSuchTensor:
        return None
    return found if isinstance(found, Tensor) else None


def put(root: object, path: str, value: Tensor) -> None:
    """Give a parameter other numbers, or put another tensor where a plain one is.

    Raises NoSuchTensor when nothing is there.
    """
    *parents, last = path.split(".")
    parent = _walk(root, parents)
    old = _step(parent, last)
    if isinstance(old, nn.Parameter):
        _overwrite(old, value)
    elif not isinstance(old, Tensor):
        raise NoSuchTensor(f"`{path}` is no tensor")
    elif isinstance(parent, list):
        parent[int(last)] = value
    elif isinstance(parent, dict):
        parent[last] = value
    else:
        setattr(parent, last, value)


def _overwrite(old: nn.Parameter, value: Tensor) -> None:
    """In place where possible, so that views of the parameter see the new numbers."""
    if old.shape == value.shape and old.dtype == value.dtype:
        old.data.copy_(value)
    else:
        old.data = value.to(old.device)


def prepare_leaves(root: object, paths: Sequence[str]) -> dict[str, Tensor]:
    """The tensors at these paths, made ready to receive gradients. Unregistered ones too."""
    found = {}
    for path in paths:
        tensor = find(root, path)
        if tensor is not None and tensor.is_leaf and tensor.is_floating_point():
            tensor.requires_grad_(True)
            found[path] = tensor
    return found


def describe_registered(module: nn.Module) -> dict[str, dict[str, Any]]:
    """Its parameters and buffers, by torch's own account: a method of its own may hide some."""
    described = {
        name: _describe("parameter", tensor)
        for name, tensor in nn.Module.named_parameters(module, remove_duplicate=False)
    }
    buffers = nn.Module.named_buffers(module, remove_duplicate=False)
    described.update((name, _describe("buffer", tensor)) for name, tensor in buffers)
    return described


def _describe(kind: str, tensor: Tensor) -> dict[str, Any]:
    return {
        "kind": kind,
        "shape": list(tensor.shape),
        "dtype": str(tensor.dtype).removeprefix("torch."),
        "device": str(tensor.device),
        "trainable": bool(tensor.requires_grad),
    }


def _walk(root: object, steps: Sequence[str]) -> object:
    for step in steps:
        root = _step(root, step)
    return root


KEYED_TYPES = (dict, nn.ModuleDict, nn.ParameterDict, Mapping)
INDEXED_TYPES = (list, tuple, nn.ModuleList, nn.ParameterList, nn.Sequential)
MISSING = object()


def _step(parent: object, name: str) -> object:
    if isinstance(parent, KEYED_TYPES) and name in parent:
        return parent[name]
    if name.isdigit() and isinstance(parent, INDEXED_TYPES):
        found: object = parent[int(name)] if int(name) < len(parent) else MISSING
    else:
        found = getattr(parent, name, MISSING)
    if found is MISSING:
        raise NoSuchTensor(f"there is no `{name}`")
    return found


def as_module(value: object) -> nn.Module | None:
    """The value, if it is a module."""
    return value if isinstance(value, torch.nn.Module) else None
