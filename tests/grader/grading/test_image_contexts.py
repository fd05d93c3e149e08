"""The pixels of an image attend to a context, as in a U-Net for diffusion."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

SOURCE = """\
from torch import nn


class TextAttention(nn.Module):
    def __init__(self, channels, text_dim, heads=4, dim_head=8, num_groups=4):
        super().__init__()
        self.heads = heads
        self.norm = nn.GroupNorm(num_groups, channels)
        self.q = nn.Linear(channels, heads * dim_head, bias=False)
        self.k = nn.Linear(text_dim, heads * dim_head, bias=False)
        self.v = nn.Linear(text_dim, heads * dim_head, bias=False)
        self.out = nn.Linear(heads * dim_head, channels)

    def forward(self, x, text):
        b, c, height, width = x.shape
        pixels = self.norm(x).flatten(2).transpose(1, 2)
        q, k, v = (
            t.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for t in (self.q(pixels), self.k(text), self.v(text))
        )
        weights = (q @ k.mT / q.shape[-1] ** 0.5).softmax(-1)
        out = self.out((weights @ v).transpose(1, 2).flatten(2))
        return x + out.transpose(1, 2).reshape(x.shape)
"""


def test_a_right_class_passes_though_its_groups_are_those_of_a_norm(
    grade_text: "GradeText",
) -> None:
    record = grade_text(SOURCE)
    assert record.status == "passed" and record.max_score > 100
    told = [note.message for note in record.notes]
    assert "its inputs have the shape (batch, channels, rows, columns)" in told
    assert "judged without its `norm`, which every call leaves out" in told


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("softmax(-1)", "softmax(-2)"),
        pytest.param("q.shape[-1] ** 0.5", "q.shape[-1]", marks=pytest.mark.whole),
    ],
)
def test_a_wrong_one_fails(old: str, new: str, grade_text: "GradeText") -> None:
    record = grade_text(SOURCE.replace(old, new))
    assert record.status == "failed" and record.max_score > 100
