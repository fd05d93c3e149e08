"""Devices by name: whether they are available, how workers share them, repeatable arithmetic.

Torch is imported only inside functions, because pytest always loads this module.
"""

import os
import re
import warnings
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path


@dataclass(frozen=True, slots=True)
class DeviceKind:
    """A kind of device: whether this machine has such a device, and what it can do."""

    explain_missing: Callable[[], str | None]
    """returns why the device is missing; None if it is available"""
    count: Callable[[], int] | None = None
    """counts the devices of this kind, if they are numbered"""
    missing_dtypes: tuple[str, ...] = ()
    """the dtypes in which the device cannot compute"""
    make_deterministic: Callable[[], None] | None = None
    """makes the device compute repeatably, in the full precision of each dtype"""


def explain_unavailable(device: str) -> str | None:
    """Return why this machine has no such device; None if it has one."""
    name, _, number = device.partition(":")
    kind = KINDS[name]
    if reason := kind.explain_missing():
        return reason
    if number and kind.count and int(number) >= (count := kind.count()):
        return f"needs the device {device}: there are {count}, numbered from 0"
    return None


def is_known(device: str) -> bool:
    """Whether this is the name of a device, whether or not this machine has it."""
    name, colon, number = device.partition(":")
    if name not in KINDS:
        return False
    return not colon or (KINDS[name].count is not None and re.fullmatch(r"\d+", number) is not None)


def explain_missing_dtype(device: str, dtype: str) -> str | None:
    """Return why a device cannot compute in a dtype; None if it can."""
    name = device.partition(":")[0]
    return f"{name} has no {dtype}" if dtype in KINDS[name].missing_dtypes else None


def describe_unused_build() -> str:
    """Describe the cost of a torch build for GPUs on a machine without one; "" otherwise."""
    import torch

    if torch.version.cuda is None or torch.cuda.is_available():
        return ""
    return (
        f"torch {torch.__version__} is built for CUDA, and this machine has no card for it. "
        "The CPU build is some gigabytes smaller:\n"
        "  pip install torch --index-url https://download.pytorch.org/whl/cpu\n"
    )


@cache
def make_deterministic(device: str) -> None:
    """Make this process compute on a device repeatably, in the full precision of each dtype."""
    if make := KINDS[device.partition(":")[0]].make_deterministic:
        make()


def select_gpu(worker: str) -> None:
    """Restrict this process to one GPU, by the number of its pytest-xdist worker ("gw3").

    This has no effect once CUDA is initialised.
    """
    gpus = list_gpus()
    number = worker.removeprefix("gw")
    if gpus and number.isdecimal():
        os.environ["CUDA_VISIBLE_DEVICES"] = gpus[int(number) % len(gpus)]


def list_gpus() -> list[str]:
    """Return the names of the GPUs that this process may use, without initialising CUDA."""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if visible is not None:
        return [name.strip() for name in visible.split(",") if name.strip()]
    count = len(list(Path("/dev").glob("nvidia[0-9]*")))
    return [str(number) for number in range(count)]


# --------------------------------------------------------------------- the kinds of devices


def _explain_missing_cuda() -> str | None:
    import torch

    if torch.cuda.is_available():
        return None
    built = torch.version.cuda is not None or torch.version.hip is not None
    reason = "torch.cuda.is_available() is False" if built else "this torch is built without CUDA"
    return f"needs a CUDA device: {reason}"


def _count_cuda_devices() -> int:
    import torch

    return torch.cuda.device_count()


def _make_cuda_deterministic() -> None:
    """Compute with all bits of a dtype, and repeatably.

    By default a float32 product may be computed in TensorFloat-32, with ten bits, and cuBLAS may
    give different results in different workspaces.
    """
    import torch

    # cuBLAS reads this when it creates its first handle.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
    _start_thread_of_gradients()


def _start_thread_of_gradients() -> None:
    """Let torch give its one warning about that thread here, and not in a submission's backward.

    A backward pass runs in a thread of its own, which has no CUDA context before its first product.
    Under `filterwarnings = error` the warning would count as a submission's crash.
    """
    import torch

    if not torch.backends.cuda.is_built():
        return
    with warnings.catch_warnings(action="ignore"):
        one = torch.ones(1, 1, device="cuda", requires_grad=True)
        (one @ one).sum().backward()


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
"""all kinds of devices, by name"""

DEVICE_NAMES = ", ".join(
    f"{name}, {name}:N" if kind.count else name for name, kind in KINDS.items()
)
"""the valid names, as messages list them"""
