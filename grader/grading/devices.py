"""Devices by name: whether there is one, whose turn it is, and arithmetic that repeats itself.

Imports torch where it is needed only: pytest loads this before it knows whether anyone will ask.
"""

import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A kind of device: whether there is one here, and what it can and cannot do."""

    explain_missing: Callable[[], str | None]
    """why there is none; None where there is one"""
    count: Callable[[], int] | None = None
    """how many there are, where they have numbers"""
    missing_dtypes: tuple[str, ...] = ()
    """the dtypes that it cannot compute in"""
    make_deterministic: Callable[[], None] | None = None
    """makes it compute as exactly as its dtypes say, and repeatably"""


def explain_unavailable(device: str) -> str | None:
    """Why there is no such device; None where there is one."""
    name, _, number = device.partition(":")
    kind = KINDS[name]
    if why := kind.explain_missing():
        return why
    if number and kind.count and int(number) >= (there := kind.count()):
        return f"needs the device {device}: there are {there}, numbered from 0"
    return None


def is_known(device: str) -> bool:
    """Whether this is a name of a device, here or elsewhere."""
    name, colon, number = device.partition(":")
    if name not in KINDS:
        return False
    return not colon or (KINDS[name].count is not None and re.fullmatch(r"\d+", number) is not None)


def explain_missing_dtype(device: str, dtype: str) -> str | None:
    """Why a device cannot compute in a dtype; None where it can."""
    name = device.partition(":")[0]
    return f"{name} has no {dtype}" if dtype in KINDS[name].missing_dtypes else None


@cache
def make_deterministic(device: str) -> None:
    """Make this process compute on a device as exactly as its dtypes say, and repeatably."""
    if make := KINDS[device.partition(":")[0]].make_deterministic:
        make()


def select_gpu(worker: str) -> None:
    """Show this process one GPU, chosen by the number of its pytest-xdist worker ("gw3").

    In vain once CUDA has been initialised.
    """
    there = list_gpus()
    number = worker.removeprefix("gw")
    if there and number.isdecimal():
        os.environ["CUDA_VISIBLE_DEVICES"] = there[int(number) % len(there)]


def list_gpus() -> list[str]:
    """The names of the GPUs that this process may use, found without CUDA."""
    chosen = os.environ.get("CUDA_VISIBLE_DEVICES")
    if chosen is not None:
        return [name.strip() for name in chosen.split(",") if name.strip()]
    count = len(list(Path("/dev").glob("nvidia[0-9]*")))
    return [str(number) for number in range(count)]


# --------------------------------------------------------------------- the kinds of devices


def _explain_missing_cuda() -> str | None:
    import torch

    if torch.cuda.is_available():
        return None
    built = torch.version.cuda is not None or torch.version.hip is not None
    why = "torch.cuda.is_available() is False" if built else "this torch has no CUDA in it"
    return f"needs a CUDA device: {why}"


def _count_cuda_devices() -> int:
    import torch

    return torch.cuda.device_count()


def _make_cuda_deterministic() -> None:
    """Compute in all the bits of a dtype.

    Otherwise a product of float32 may be one of TensorFloat-32, of ten bits, and the same product
    may come out differently in another workspace.
    """
    import torch

    # Read when cuBLAS makes its first handle.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


def _explain_missing_mps() -> str | None:
    import torch

    if torch.backends.mps.is_available():
        return None
    return "needs an MPS device: torch.backends.mps.is_available() is False"


KINDS: Mapping[str, DeviceKind] = {
    "cpu": DeviceKind(explain_missing=lambda: None),
    "cuda": DeviceKind(
        explain_missing=_explain_missing_cuda,
        count=_count_cuda_devices,
        make_deterministic=_make_cuda_deterministic,
    ),
    "mps": DeviceKind(explain_missing=_explain_missing_mps, missing_dtypes=("float64",)),
}
"""by name: all that there are"""

DEVICE_NAMES = ", ".join(
    f"{name}, {name}:N" if kind.count else name for name, kind in KINDS.items()
)
"""what may be asked for, as it is told"""
