"""Linear attention is judged in its usual form without an exercise, and no other form is."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

LINEAR = """\
import torch
from torch import nn
from torch.nn.functional import elu


class LinearAttention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads = heads
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x):
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        q, k = FEATURES
        sums = q @ k.sum(2).unsqueeze(-1) + 1e-6
        return self.o((q @ (k.mT @ v) / sums).transpose(1, 2).flatten(2))
"""


FEATURES = [
    ("elu(q) + 1, elu(k) + 1", "passed"),
    ("elu(q), elu(k)", "failed"),
    ("q.softmax(-1), k.softmax(-2)", "not_tried"),
    ("elu(q) + 1, elu(q) + 1", "failed"),
    ("q.relu(), k.relu()", "not_tried"),
]


@pytest.mark.sampled(("features", "status"), FEATURES, FEATURES[:2])
def test_features_tell_what_is_judged(grade_text: "GradeText", features: str, status: str) -> None:
    assert grade_text(LINEAR.replace("FEATURES", features)).status == status


def test_a_number_added_to_the_sums_is_part_of_the_equation(grade_text: "GradeText") -> None:
    source = LINEAR.replace("FEATURES", "elu(q) + 1, elu(k) + 1")
    assert grade_text(source.replace("1e-6", "1e-5")).status == "passed"
    assert grade_text(source.replace(" + 1e-6", "")).status == "passed"
    assert grade_text(source.replace("+ 1e-6", "+ 1")).status == "failed"
