"""torch's own attention keeps every property, by each of its kernels, on every device at hand.

    pytest tests/library --device=cpu --device=cuda
"""

import pytest
from torch.nn.attention import SDPBackend

from grader.pytest_plugin import devices_of, settle
from grader.suite import Cell, Suite
from tests.library import implementations as torch_s

CASES = 12
BACKENDS = (
    SDPBackend.MATH,
    SDPBackend.FLASH_ATTENTION,
    SDPBackend.EFFICIENT_ATTENTION,
    SDPBackend.CUDNN_ATTENTION,
)
WAYS = (
    ("nn_multihead_attention_masked", torch_s.MultiheadAttentionWithMask, torch_s.MASKED),
    ("nn_multihead_attention_causal", torch_s.MultiheadAttentionCausal, torch_s.CAUSAL),
    *(
        (f"{name}_{backend.name.lower()}", torch_s.by(backend, made), contract)
        for backend in BACKENDS
        for name, made, contract in (
            ("sdpa_causal", torch_s.FusedCausal, torch_s.FUSED),
            ("sdpa_masked", torch_s.FusedMasked, torch_s.FUSED_MASKED),
        )
    ),
)
SUITES = {
    name: Suite({contract.name: made}, contract, CASES) for name, made, contract in WAYS
}


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    metafunc.parametrize(
        ("way", "cell"),
        [
            pytest.param(
                way,
                cell,
                id=f"{way}-{cell.name}",
                marks=[pytest.mark.gpu] if cell.device.startswith("cuda") else [],
            )
            for way, suite in SUITES.items()
            for cell in suite.cells(devices_of(metafunc.config))
        ],
    )


def test_torch_keeps_the_property(way: str, cell: Cell) -> None:
    settle(SUITES[way].outcome(cell))
