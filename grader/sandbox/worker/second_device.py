"""A second device where there is none: it calls itself "meta", and computes on the CPU.

Theory of operation
    What stays behind when a module moves shows on another device only. A tensor over there is a
    `Remote`: it says that it is on the meta device, and keeps its numbers in a tensor of the CPU.
    Every operation comes, below autograd, to `carry_out`, which refuses what a GPU refuses
    and does the rest with the numbers. So printing, `.item()` and branches work as on a GPU, and
    the answer can be compared with the one from here.

    A GPU takes nothing from the CPU but numbers (tensors without an axis), indices of a tensor over
    there, and copies. An index that was kept, as an attribute say, did not move along: the call
    goes on as on a GPU, and the index is named in `unmoved`.
"""

import contextlib
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._pytree import tree_leaves, tree_map

from grader.sandbox.worker.left_behind import (
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
    """A tensor over there."""

    cpu_tensor: Tensor

    @staticmethod
    def __new__(cls, numbers: Tensor) -> "RemoteTensor":
        made: RemoteTensor = Tensor._make_wrapper_subclass(
            cls,
            numbers.size(),
            numbers.stride(),
            numbers.storage_offset(),
            dtype=numbers.dtype,
            layout=numbers.layout,
            device=REMOTE_DEVICE,
        )
        made.cpu_tensor = numbers
        return made

    __torch_function__ = torch._C._disabled_torch_function_impl  # type: ignore[assignment]

    @classmethod
    def __torch_dispatch__(  # type: ignore[override]  # which torch declares without a class
        cls, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return carry_out(func, args, kwargs or {}, UnmovedTracker(None, {}))

    @property
    def is_cuda(self) -> bool:  # type: ignore[override]  # for those who ask before they move
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
    """The tensor of the CPU that a tensor stands for."""
    if isinstance(tensor, RemoteTensor):
        return tensor.cpu_tensor
    # Made on the meta device by the submission itself, and so without numbers.
    return torch.zeros(tensor.shape, dtype=tensor.dtype) if tensor.is_meta else tensor


def carry_out(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], unmoved: UnmovedTracker
) -> Any:
    """Do an operation where it belongs. Raises RuntimeError where a GPU would refuse."""
    operands = [leaf for leaf in tree_leaves((args, kwargs)) if isinstance(leaf, Tensor)]
    meets = any(tensor.is_meta for tensor in operands)
    wanted = kwargs.get("device")
    goes_there = meets if wanted is None else torch.device(wanted) == REMOTE_DEVICE
    if meets and func not in COPY_OPS:
        refuse_strays(func, args, kwargs, unmoved)
    given = kwargs if wanted is None else {**kwargs, "device": LOCAL_DEVICE}
    result = func(*_unwrap_tensors(args), **_unwrap_tensors(given))
    if func in COPY_OPS and find_written_arguments(func):
        return args[0]
    if not goes_there:
        if func is aten.lift_fresh.default:  # so torch.tensor(...) ends
            unmoved.note_created(result)
        unmoved.note_result(result, operands)
        return result
    if torch.Tag.inplace_view in func.tags:  # of unsqueeze_ and the like both have the shape
        with torch._C._DisableTorchDispatch():
            func(*args, **kwargs)
    return _wrap_result(result, [tensor for tensor in operands if isinstance(tensor, RemoteTensor)])


def _wrap_result(result: Any, remotes: Sequence[RemoteTensor]) -> Any:
    """Numbers as tensors over there; those of an operand, which it wrote into, as that operand."""
    owners = {id(remote.cpu_tensor): remote for remote in remotes}

    def move(part: Any) -> Any:
        if not isinstance(part, Tensor):
            return part
        return owners[id(part)] if id(part) in owners else RemoteTensor(part)

    return tree_map(move, result)


def refuse_strays(
    func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], unmoved: UnmovedTracker
) -> None:
    """Raises RuntimeError for a tensor of the CPU that a GPU does not take in this operation."""
    names = [argument.name for argument in func._schema.arguments]
    for name, value in (*zip(names, args, strict=False), *kwargs.items()):
        for tensor in tree_leaves(value):
            if not isinstance(tensor, Tensor) or tensor.is_meta:
                continue
            if name == "indices" and func in INDEXING_OPS:
                unmoved.note_encounter(tensor, STAYED_ON_CPU)
            elif tensor.dim() or tensor is not value or name in find_written_arguments(func):
                said = unmoved.describe(tensor, STAYED_ON_CPU)
                raise RuntimeError(f"Expected all tensors to be on the same device, but {said}")


def _unwrap_tensors(value: Any) -> Any:
    return tree_map(lambda part: get_cpu_tensor(part) if isinstance(part, Tensor) else part, value)


class SecondDeviceMode(UncompiledDispatchMode):
    """Operations inside may make tensors over there, and are refused what a GPU refuses."""

    def __init__(self, unmoved: UnmovedTracker) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.unmoved = unmoved

    def __torch_dispatch__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return carry_out(func, args, kwargs or {}, self.unmoved)


class ConversionMode(TorchFunctionMode):
    """Functions that torch carries out otherwise on the meta device than on a GPU."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if func is torch.Tensor.cuda:
            return args[0].to(REMOTE_DEVICE)
        if func in (torch.tensor, torch.as_tensor) and kwargs.get("device") is not None:
            # On the meta device torch would not even store the numbers.
            device = kwargs.pop("device")
            return func(*args, **kwargs).to(device)
        if func is torch.Tensor.new_tensor and "device" not in kwargs:
            return torch.tensor(*args[1:], **{"dtype": args[0].dtype, **kwargs}).to(args[0].device)
        return func(*args, **kwargs)


@contextlib.contextmanager
def enable_second_device(unmoved: UnmovedTracker) -> Iterator[None]:
    """There is a device called "meta" inside."""
    with ConversionMode(), SecondDeviceMode(unmoved):
        yield


def move_to_second_device(module: torch.nn.Module, dtype: torch.dtype | None) -> None:
    """`.to()`, as to a GPU: a parameter stays the object that it was, wherever else it is held."""
    swapping = torch.__future__.get_swap_module_params_on_conversion()
    with enable_second_device(UnmovedTracker(module, {})):
        torch.__future__.set_swap_module_params_on_conversion(True)
        try:
            module.to(REMOTE_DEVICE, dtype)
        except RuntimeError:  # a parameter of which a view is kept cannot be swapped
            torch.__future__.set_swap_module_params_on_conversion(False)
            module.to(REMOTE_DEVICE, dtype)
        finally:
            torch.__future__.set_swap_module_params_on_conversion(swapping)
