"""Devices by name: whether there is one, whose turn it is, and arithmetic that repeats itself.

Imports torch where it is needed only: pytest loads this before it knows whether anyone will ask.
"""

import os
import re
from functools import cache
from pathlib import Path

DEVICE_PATTERN = re.compile(r"cpu|mps|cuda(:\d+)?")


def explain_unavailable(device: str) -> str | None:
    """Why there is no such device; None where there is one."""
    import torch

    kind, _, number = device.partition(":")
    if kind == "cuda":
        if not torch.cuda.is_available():
            built = torch.version.cuda is not None or torch.version.hip is not None
            why = "torch.cuda.is_available() is False" if built else "this torch has no CUDA in it"
            return f"needs a CUDA device: {why}"
        count = torch.cuda.device_count()
        if number and int(number) >= count:
            return f"needs the device {device}: there are {count}, numbered from 0"
    if kind == "mps" and not torch.backends.mps.is_available():
        return "needs an MPS device: torch.backends.mps.is_available() is False"
    return None


def explain_missing_dtype(device: str, dtype: str) -> str | None:
    """Why a device cannot compute in a dtype; None where it can."""
    if device == "mps" and dtype == "float64":
        return "mps has no float64"
    return None


@cache
def make_deterministic(device: str) -> None:
    """Make this process compute on a GPU as exactly as its dtypes say, and repeatably.

    Otherwise a product of float32 may be one of TensorFloat-32, of ten bits, and the same product
    may come out differently in another workspace.
    """
    if not device.startswith("cuda"):
        return
    import torch

    # Read when cuBLAS makes its first handle.
    os.environ.setdefault("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cuda.matmul.allow_tf32 = False
    torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
    torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False


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
