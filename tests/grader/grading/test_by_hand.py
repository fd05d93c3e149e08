"""Where attention is to be written by hand, torch's own is out of reach; elsewhere it is not."""

from dataclasses import replace

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.settings import Settings
from tests.grader.conftest import GradeText

EXERCISE = BY_SLUG["scaled_dot_product"]
HEAD = "import torch\nimport torch.nn.functional as F\n\n"
ASKED = "def scaled_dot_product_attention(x, W_query, W_key, W_value):\n"
FUSED = (
    "    q, k, v = (t[None] for t in (x @ W_query, x @ W_key, x @ W_value))\n"
    "    return F.scaled_dot_product_attention(q, k, v)[0]\n"
)
MODULE = (
    "    q, k, v = (t.unsqueeze(1) for t in (x @ W_query, x @ W_key, x @ W_value))\n"
    "    d = q.shape[-1]\n"
    "    zero, one = torch.zeros(3 * d).to(x), torch.eye(d).to(x)\n"
    "    out, _ = F.multi_head_attention_forward(\n"
    "        q, k, v, d, 1, torch.cat([one] * 3), zero, None, None, False, 0.0, one, zero[:d],\n"
    "        training=False, need_weights=False)\n"
    "    return out.squeeze(1)\n"
)


@pytest.mark.parametrize(
    ("body", "name"),
    [(FUSED, "scaled_dot_product_attention"), (MODULE, "multi_head_attention_forward")],
)
def test_torch_attention_can_be_disabled(grade_text: GradeText, body: str, name: str) -> None:
    allowed = grade_text(HEAD + ASKED + body, Settings(exercise=EXERCISE))
    assert allowed.status == "passed"
    refused = grade_text(HEAD + ASKED + body, Settings(exercise=EXERCISE, by_hand=True))
    assert (refused.status, refused.score) == ("crashed", 0)
    told = next(p.message for p in refused.properties if p.status == "crashed")
    assert f"torch's own `{name}` was called: here attention is written by hand" in told


def test_handwritten_attention_is_graded_as_usual(grade_text: GradeText) -> None:
    settings = Settings(exercise=EXERCISE, by_hand=True)
    assert grade_text(EXERCISE.solution, settings).status == "passed"


def test_exercise_can_require_handwritten_attention(grade_text: GradeText) -> None:
    strict = Settings(exercise=replace(EXERCISE, by_hand=True))
    assert grade_text(HEAD + ASKED + FUSED, strict).status == "crashed"


def test_exercise_that_needs_torch_attention_is_exempt() -> None:
    fused = BY_SLUG["fused_causal_self_attention"]
    assert not Settings(by_hand=True).is_by_hand(fused)
    assert Settings(by_hand=True).is_by_hand(EXERCISE)
    assert not Settings().is_by_hand(EXERCISE)
