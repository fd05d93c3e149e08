"""The compiler is left out: the meta device computes as before, and nothing is imported for it."""

import textwrap

import pytest

from headcheck.grader.sandbox.server_side import uncompiled
from tests.interpreter import run_python

META = """
    scores = torch.ones(2, 3, 3, device="meta", dtype=torch.float64).tril()
    weights = scores.masked_fill(scores == 0, -torch.inf).softmax(-1) / 2**0.5
    out = torch.nn.functional.dropout(weights.transpose(1, 2) @ scores, 0.5) + scores.mean(-1, True)
    print(out.shape, out.dtype, out.device, "torch._dynamo" in sys.modules)
"""


def said(before: str) -> str:
    program = f"import sys, torch\n{before}\n{textwrap.dedent(META)}"
    return run_python("-c", program).stdout


@pytest.mark.whole
def test_shapes_are_computed_as_before_and_the_compiler_stays_away() -> None:
    there = (
        "from headcheck.grader.sandbox.server_side import uncompiled; uncompiled.bypass_dynamo()"
    )
    before, after = said(""), said(there)
    assert after == before.replace("True", "False")
    assert "torch.Size([2, 3, 3]) torch.float64 meta" in after


def test_other_torch_versions_lose_only_time(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    from torch import _compile

    monkeypatch.delattr(_compile, "_disable_dynamo")
    assert uncompiled.bypass_dynamo() == 0
