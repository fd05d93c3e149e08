"""Preserve global state: a check neither depends on a notebook's settings nor changes them.

A check must reach the same verdict as `headcheck grade` in a fresh process, and a student who
trains a model must get the same random numbers with and without a check.
"""

import contextlib
import random
import sys
import warnings
from collections.abc import Iterator
from types import ModuleType
from typing import Any

import numpy as np
import torch

from headcheck.grader.sandbox.worker.importing import TOP


@contextlib.contextmanager
def preserve_global_state() -> Iterator[None]:
    """Set the state of a fresh process; restore the previous state at the end, even on errors."""
    with contextlib.ExitStack() as after:
        after.enter_context(torch.inference_mode(False))
        after.enter_context(torch.enable_grad())
        after.enter_context(torch.autograd.set_detect_anomaly(False))
        after.enter_context(warnings.catch_warnings())
        warnings.simplefilter("ignore")
        if torch.get_default_device().type != "cpu":
            after.enter_context(torch.device("cpu"))
        for restore, state in _iter_states():
            after.callback(restore, state)
        torch.set_default_dtype(torch.float32)
        torch.set_deterministic_debug_mode("default")
        torch.set_float32_matmul_precision("highest")
        # On a shared machine, several threads took 28 s instead of 1 for such small tensors.
        torch.set_num_threads(1)
        yield


def _iter_states() -> Iterator[tuple[Any, Any]]:
    """Yield the setter and the current value of each global state."""
    yield _set_module, sys.modules.get(TOP)
    yield random.setstate, random.getstate()
    yield np.random.set_state, np.random.get_state()
    yield torch.set_rng_state, torch.get_rng_state()
    if torch.cuda.is_initialized():
        yield torch.cuda.set_rng_state_all, torch.cuda.get_rng_state_all()
    if torch.backends.mps.is_available():
        yield torch.mps.set_rng_state, torch.mps.get_rng_state()
    yield torch.set_default_dtype, torch.get_default_dtype()
    yield torch.set_deterministic_debug_mode, torch.get_deterministic_debug_mode()
    yield torch.set_float32_matmul_precision, torch.get_float32_matmul_precision()
    yield torch.set_num_threads, torch.get_num_threads()


def _set_module(module: ModuleType | None) -> None:
    """Register this module, or none, under the module name that submissions run under."""
    sys.modules.pop(TOP, None)
    if module is not None:
        sys.modules[TOP] = module
