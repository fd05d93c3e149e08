"""Emulate a second device on machines without one; it is called "meta" and computes on the CPU.

Theory of operation
    Tensors that were not moved with their module are noticed only on a second device. A tensor on
    this device is a `RemoteTensor`: it reports the meta device, and keeps its values in a tensor on
    the CPU. Every operation passes through `carry_out`, below autograd. This function refuses every
    operation that a GPU would refuse, and carries out all others on the values. So printing,
    `.item()` and branches work as on a GPU, and the result can be compared with the result on the
    CPU.

    From the CPU, a GPU accepts only plain numbers (tensors without an axis), indices into a tensor
    on the GPU, and copies. If such an index is kept, for example as an attribute, it should have
    been moved. The call then continues, as on a GPU, and `unmoved` names the index.
"""

import contextlib
import sys
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from headcheck.grader.sandbox.worker.left_behind import (
    COPY_OPS,
    UncompiledDispatchMode,
    UnmovedTracker,
    find_written_arguments,
)

DEVICE_NAME = "meta"
REMOTE_DEVICE, LOCAL_DEVICE = torch.device(DEVICE_NAME), torch.device("cpu")
aten = torch.ops.aten
INDEXING_OPS = (
    aten.index.Tensor,
    aten._unsafe_index.Tensor,
    aten.index_put.default,
    aten.index_put_.default,
    aten._index_put_impl_.default,
)
STAYED_ON_CPU = "stayed on the cpu"


class RemoteTensor(Tensor):
    """A tensor on the second device."""

    cpu_tensor: Tensor

    @staticmethod
    def __new__(cls, values: Tensor) -> "RemoteTensor":
        made: RemoteTensor = Tensor._make_wrapper_subclass(
            cls,
            values.size(),
            values.stride(),
            values.storage_offset(),
            dtype=values.dtype,
            layout=values.layout,
            device=REMOTE_DEVICE,
        )
        made.cpu_tensor = values
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # torch declares it without a class
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return carry_out(func, args, kwargs or {}, UnmovedTracker(None, {}))

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]  # for code that branches on it
        return True

    def __repr__(self, *, tensor_contents: Any = None) -> str:  # type: ignore[override]
        return repr(self.cpu_tensor)

    def tolist(self) -> Any:
        return self.cpu_tensor.tolist()

    def numpy(self, *, force: bool = False) -> Any:
        if force:
            return self.cpu_tensor.numpy(force=True)
        raise TypeError(
            "can't convert a tensor of another device to numpy. Use Tensor.cpu() to copy it to "
            "host memory first."
        )


def get_cpu_tensor(tensor: Tensor) -> Tensor:
    """Return the tensor on the CPU that holds a tensor's values."""
    if isinstance(tensor, RemoteTensor):
        return tensor.cpu_tensor
    # The submission itself made it on the meta device, so it has no values.
    return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor


def carry_out(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], unmoved: UnmovedTracker
) -> Any:
    """Carry out an operation on its device. Raises RuntimeError if a GPU would refuse it."""
    operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    has_remote = any(tensor.is_meta for tensor in operands)
    device = kwargs.get("device")
    is_remote = has_remote if device is None else torch.device(device) == REMOTE_DEVICE
    if has_remote and func not in COPY_OPS:
        refuse_strays(func, args, kwargs, unmoved)
    on_cpu = kwargs if device is None else {**kwargs, "device": LOCAL_DEVICE}
    result = func(*_unwrap_tensors(args), **_unwrap_tensors(on_cpu))
    if func in COPY_OPS and find_written_arguments(func):
        return args[0]
    if not is_remote:
        if func is aten.lift_fresh.default:  # the last operation of torch.tensor(...)
            unmoved.note_result(result, ())
        unmoved.note_result(result, operands)
        return result
    if torch.Tag.inplace_view in func.tags:  # unsqueeze_ etc. change the wrapper's shape, too
        with torch._C._DisableTorchDispatch():
            func(*args, **kwargs)
    return _wrap_result(result, operands)


def _wrap_result(result: Any, operands: Sequence[Tensor]) -> Any:
    """Put a result on the second device; if it is an operand's values, return that operand."""
    owners = {id(each.cpu_tensor): each for each in operands if isinstance(each, RemoteTensor)}

    def wrap(part: Any) -> Any:
        if not isinstance(part, Tensor):
            return part
        return owners[id(part)] if id(part) in owners else RemoteTensor(part)

    return tree_map(wrap, result)


def refuse_strays(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], unmoved: UnmovedTracker
) -> None:
    """Raise RuntimeError for a tensor on the CPU that a GPU does not accept in this operation."""
    names = [argument.name for argument in func._schema.arguments]
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        for tensor in tree_leaves(value):
            if not isinstance(tensor, Tensor) or tensor.is_meta:
                continue
            if name == "indices" and func in INDEXING_OPS:
                unmoved.note_encounter(tensor, STAYED_ON_CPU)
            elif tensor.dim() or tensor is not value or name in find_written_arguments(func):
                problem = unmoved.describe(tensor, STAYED_ON_CPU)
                raise RuntimeError(f"Expected all tensors to be on the same device, but {problem}")


def _unwrap_tensors(value: Any) -> Any:
    return tree_map(lambda part: get_cpu_tensor(part) if isinstance(part, Tensor) else part, value)


class SecondDeviceMode(UncompiledDispatchMode):
    """Dispatches all operations in this context, including those that create tensors on "meta"."""

    def __init__(self, unmoved: UnmovedTracker) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.unmoved = unmoved

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return carry_out(func, args, kwargs or {}, self.unmoved)


class ConversionMode(TorchFunctionMode):
    """Replaces functions that torch implements differently for the meta device than for GPUs."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].to(REMOTE_DEVICE)
        if (
            func in (torch.tensor, torch.as_tensor, torch.asarray)
            and kwargs.get("device") is not None
        ):
            # For the meta device torch would not even store the values.
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if func is torch.Tensor.new_tensor and "device" not in kwargs:
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **kwargs}).to(args[0].device)
        if func in (torch.Tensor.__getitem__, torch.Tensor.__setitem__) and args[0].is_meta:
            # Of numbers torch makes an index on the device itself, where it would have no values.
            args = (args[0], _move_index(args[1]), *args[2:])
        return func(*args, **kwargs)


def _move_index(index: Any) -> Any:
    """Return an index with its lists and arrays of numbers converted to tensors on the device."""
    if isinstance(index, tuple):
        return tuple(map(_move_index, index))
    if isinstance(index, list | range) and len(index):
        if all(isinstance(each, int) for each in index):
            return torch.tensor(index).to(REMOTE_DEVICE)
        return list(map(_move_index, index))  # torch takes it for a tuple
    if hasattr(index, "__array__") and not isinstance(index, Tensor):
        return torch.as_tensor(index).to(REMOTE_DEVICE)
    return index


def _make_bias(cls: type[Tensor], *sizes: int) -> Tensor:
    with torch._C._DisableTorchDispatch():
        return Tensor.__new__(cls, *sizes)


@contextlib.contextmanager
def allow_biases() -> Iterator[None]:
    """Allow torch's own attention bias to be created in this context, if it has been imported.

    The bias is a tensor of a special class, which cannot be constructed while a mode is active.
    """
    bias = sys.modules.get("torch.nn.attention.bias")  # importing it takes more than a second
    if bias is None:
        yield
        return
    bias.CausalBias.__new__ = _make_bias
    try:
        yield
    finally:
        del bias.CausalBias.__new__


@contextlib.contextmanager
def enable_second_device(unmoved: UnmovedTracker) -> Iterator[None]:
    """Provide a second device called "meta" in this context."""
    with allow_biases(), ConversionMode(), SecondDeviceMode(unmoved):
        yield


def move_to_second_device(module: torch.nn.Module, dtype: torch.dtype | None) -> None:
    """Move a module as `.to()` moves it to a GPU: parameters remain the same objects."""
    swapping = torch.__future__.get_swap_module_params_on_conversion()
    with enable_second_device(UnmovedTracker(module, {})):
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            module.to(REMOTE_DEVICE, dtype)
        except RuntimeError:  # a parameter with a view that is still alive cannot be swapped
            torch.__future__.set_swap_module_params_on_conversion(False)
            module.to(REMOTE_DEVICE, dtype)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(swapping)
