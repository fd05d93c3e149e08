"""A mask of heads, as in BERT, takes away what the heads add that it hides."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeAll

SOURCE = """\
from torch import nn


class SelfAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(width, width) for _ in range(4))

    def forward(self, x, head_mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        weights = scores.softmax(-1)
        if head_mask is not None:
            weights = weights * head_mask
        return self.o((weights @ v).transpose(1, 2).flatten(2))
"""
STEP = """\
        weights = scores.softmax(-1)
        if head_mask is not None:
            weights = weights * head_mask
"""
EARLY = """\
        if head_mask is not None:
            scores = scores * head_mask
        weights = scores.softmax(-1)
"""


@pytest.mark.parametrize(
    ("source", "got"),
    [
        (SOURCE, ""),
        (SOURCE.replace("* head_mask", "* head_mask.view(1, -1, 1, 1)"), ""),
        (SOURCE.replace(STEP, EARLY), "something else"),
        (SOURCE.replace("* head_mask", "+ 0 * head_mask"), "the mask changes nothing"),
    ],
    ids=["right", "one number for each head", "before the softmax", "without an effect"],
)
def test_heads_that_are_hidden_add_nothing(source: str, got: str, grade_all: "GradeAll") -> None:
    attention, masked = grade_all(source)
    assert (attention.status, masked.status) == ("passed", "failed" if got else "passed")
    assert got in (masked.properties[0].message or "")
    assert "judged with its `head_mask`, too" in masked.notes[0].message


def test_what_takes_no_mask_of_heads_is_not_asked(grade_all: "GradeAll") -> None:
    refused = SOURCE.replace(
        "            weights = weights * head_mask", "            raise ValueError"
    )
    assert [record.status for record in grade_all(refused)] == ["passed"]
