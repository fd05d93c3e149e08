"""A drafted statement says what the parts of attention do, with all numbers."""

from dataclasses import replace

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.authoring.drafts import draft_statement
from headcheck.properties.parts.positions import ScalingKind, StatedScaling
from headcheck.properties.signatures.signature import Signature
from tests.kinds.bank import KINDS

LLAMA3 = StatedScaling(ScalingKind.LLAMA3, 8, 48, 1, 4)
YARN = StatedScaling(ScalingKind.YARN, 16, 4096)


@pytest.mark.parametrize(
    ("scaling", "words"),
    [
        (StatedScaling(ScalingKind.LINEAR, 4), "All frequencies are divided by 4."),
        (
            StatedScaling(ScalingKind.NTK, 4),
            "Before that, the base is multiplied by `4^(n/(n - 2))`.",
        ),
        (LLAMA3, "`r = 48 f / 2π` and `s = (r - 1) / (4 - 1)`, limited to 0 … 1."),
        (YARN, "up for the last. Cosines and sines are multiplied by 1.27726."),
        (replace(YARN, truncate=False, attention_factor=0.5), "(2 ln 64)`. Cosines and sines are"),
    ],
)
def test_a_scaling_is_stated(scaling: StatedScaling, words: str) -> None:
    contract = replace(BY_SLUG["scaled_rope"].contract, rotary_scaling=scaling)
    statement = draft_statement(contract, Signature("ScaledRotaryAttention", (), ()))
    assert words in " ".join(statement.split())


def test_the_numbers_of_distances_are_stated() -> None:
    statement = draft_statement(KINDS["relative_bias"].contract, Signature("T5Attention", (), ()))
    assert "| `relative_attention_bias.weight` | `(12, heads)` | the numbers of each" in statement
    assert "softmax(Q_h K_hᵀ, what is hidden masked)" in statement
    assert "below 3 has the bucket `r`" in statement
    assert "`3 + ⌊3 ln(r / 3) / ln(10 / 3)⌋`, at most 5. Later keys" in statement
