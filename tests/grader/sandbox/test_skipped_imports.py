"""Without the compiler and sympy all is computed and refused as before; who needs it gets it."""

import textwrap

import pytest

from headcheck.grader.sandbox.server_side import skipped_imports
from tests.interpreter import run_python

WITHOUT_COMPILER = """
    from headcheck.grader.sandbox.server_side import skipped_imports
    skipped_imports.bypass_dynamo()
"""
META = """
    scores = torch.ones(2, 3, 3, device="meta", dtype=torch.float64).tril()
    weights = scores.masked_fill(scores == 0, -torch.inf).softmax(-1) / 2**0.5
    out = torch.nn.functional.dropout(weights.transpose(1, 2) @ scores, 0.5) + scores.mean(-1, True)
    print(out.shape, out.dtype, out.device, "torch._dynamo" in sys.modules)
"""
WITH_STAND_IN = """
    from headcheck.grader.sandbox.server_side import skipped_imports
    skipped_imports.bypass_sympy()
"""
GRADIENTS = """
    x = torch.arange(6.0).reshape(2, 3).requires_grad_()
    print(torch.autograd.grad(x**2, [x], torch.full((2, 3), 3.0)))
    (x**3).backward(torch.ones(2, 3))
    print(x.grad)
    for wrong in (torch.ones(3, 2), torch.ones(6), torch.ones(2)):
        try:
            torch.autograd.grad(x**2, [x], wrong)
        except RuntimeError as error:
            print(error)
"""
LOOKS = """
    import inspect
    inspect.getmodule(type("A", (), {}))
    assert all(hasattr(m, "__file__") or m for m in list(sys.modules.values()))
"""
USES = {
    "symbols": """
        from torch.fx.experimental.symbolic_shapes import ShapeEnv, expect_true, sym_eq
        size = ShapeEnv().create_unbacked_symint()
        print(bool(expect_true(sym_eq((size, 2), (size, 2)))), sym_eq([1], [1]), sym_eq(2, 2))
        print(expect_true(True), type(expect_true(size == size)))
    """,
    "the module": """
        import torch.fx.experimental.symbolic_shapes as shapes
        print(shapes.statically_known_true(3 == 3), shapes.ShapeEnv.__name__)
    """,
    "the meta device": """
        mask = torch.ones(3, 3, device="meta").tril()
        print(mask.masked_fill(mask == 0, 1.0).softmax(-1).shape)
    """,
    "checkpoints": """
        from torch.utils.checkpoint import checkpoint
        x = torch.ones(2, requires_grad=True)
        checkpoint(torch.exp, x, use_reentrant=False).sum().backward()
        print(x.grad)
    """,
}


def run(*parts: str) -> str:
    program = "import sys, torch\n" + "".join(map(textwrap.dedent, parts))
    ran = run_python("-W", "ignore", "-c", program)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_gradients_are_as_before_and_sympy_stays_away() -> None:
    """It stays away, too, when something looks at all modules."""
    asks = "\nprint('sympy' in sys.modules)"
    before, after = run(GRADIENTS, asks), run(WITH_STAND_IN, LOOKS, GRADIENTS, asks)
    assert after == before.replace("True", "False")
    assert before.count("Mismatch in shape: grad_output[0]") == 3


@pytest.mark.whole
@pytest.mark.parametrize("name", USES)
def test_other_uses_get_what_torch_has(name: str) -> None:
    use = USES[name]
    assert run(WITH_STAND_IN, use) == run(use) != ""


@pytest.mark.whole
def test_shapes_are_computed_as_before_and_the_compiler_stays_away() -> None:
    before, after = run(META), run(WITHOUT_COMPILER, META)
    assert after == before.replace("True", "False")
    assert "torch.Size([2, 3, 3]) torch.float64 meta" in after


def test_other_torch_versions_lose_only_time(monkeypatch: pytest.MonkeyPatch) -> None:
    from torch import _compile

    monkeypatch.delattr(_compile, "_disable_dynamo")
    assert skipped_imports.bypass_dynamo() == 0
