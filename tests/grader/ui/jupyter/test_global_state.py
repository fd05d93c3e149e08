"""`check` leaves a process as it was, whatever was set there and however it ends."""

import contextlib
import random
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from headcheck.grader.ui.jupyter import CheckInterrupted
from headcheck.grader.ui.jupyter.checking import check_in_namespace, make_request
from tests.grader.ui.jupyter.cells import check_answer, run_cell


def state() -> dict[str, Any]:
    """All that a check must leave as it was."""
    return {
        "torch": torch.get_rng_state().tolist(),
        "numpy": repr(np.random.get_state()),
        "random": random.getstate(),
        "grad": torch.is_grad_enabled(),
        "inference": torch.is_inference_mode_enabled(),
        "dtype": torch.get_default_dtype(),
        "device": torch.get_default_device(),
        "deterministic": torch.get_deterministic_debug_mode(),
        "precision": torch.get_float32_matmul_precision(),
        "threads": torch.get_num_threads(),
        "anomaly": torch.is_anomaly_enabled(),
        "filters": list(warnings.filters),
    }


def set_otherwise() -> None:
    torch.manual_seed(7)
    np.random.seed(8)
    random.seed(9)
    torch.set_grad_enabled(False)
    torch.set_default_dtype(torch.float64)
    torch.set_default_device("meta")
    torch.use_deterministic_algorithms(True)
    torch.set_float32_matmul_precision("high")
    torch.set_num_threads(2)


@pytest.fixture
def odd() -> Iterator[dict[str, Any]]:
    """A notebook in which everything is set to something else than usual."""
    before = torch.get_num_threads()
    set_otherwise()
    try:
        yield state()
    finally:
        torch.set_grad_enabled(True)
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
        torch.use_deterministic_algorithms(False)
        torch.set_float32_matmul_precision("highest")
        torch.set_num_threads(before)


MEDDLER = """
import random, torch, numpy
from torch import nn

class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        torch.manual_seed(1); numpy.random.seed(1); random.seed(1)
        torch.set_default_dtype(torch.float64)
        torch.set_num_threads(1)
        torch.use_deterministic_algorithms(False)
        torch.set_grad_enabled(False)
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
    def forward(self, x):
        {ending}
"""
ENDINGS: dict[str, tuple[str, type[BaseException] | None]] = {
    "returns": ("return x", None),
    "raises": ("raise ValueError(1)", None),
    "exits": ("raise SystemExit", None),
    "is interrupted": ("raise KeyboardInterrupt", CheckInterrupted),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_global_state_is_restored_however_it_ends(ending: str, odd: dict[str, Any]) -> None:
    text, expected = ENDINGS[ending]
    source = MEDDLER.format(ending=text).replace("self.W_query =", "self.W_key = self.W_value =")
    source = source.replace(
        "\n    def forward", "\n        self.W_query = self.W_key\n    def forward"
    )
    namespace = run_cell(source)
    names = set(namespace)
    with pytest.raises(expected) if expected else contextlib.nullcontext():
        check_in_namespace(namespace["CausalAttention"], make_request(), namespace)
    assert state() == odd
    assert set(namespace) == names


def test_verdict_does_not_depend_on_global_state(odd: dict[str, Any]) -> None:
    assert check_answer("causal_attention").passed
    assert state() == odd


def test_inference_mode_is_restored_and_not_inherited() -> None:
    with torch.inference_mode():
        assert check_answer("linear_layer").passed
        assert torch.is_inference_mode_enabled()
