"""What a notebook has set is not seen by a check, and is not changed by it.

A check must come to the verdict that `headcheck grade` comes to in a fresh process, whatever was
set before; and whoever trains a model must not get other random numbers for having checked it.
"""

import contextlib
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import torch


@contextlib.contextmanager
def preserve_global_state() -> Iterator[None]:
    """As in a fresh process inside; afterwards everything is as it was, however it ended."""
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
        # On a machine that others use, threads that wait for each other over tensors this small
        # made 28 s of one.
        torch.set_num_threads(1)
        yield


def _iter_states() -> Iterator[tuple[Any, Any]]:
    """What sets each of the states of this process, and how it is now."""
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
