"""Options without effect, heads in another order, and what one call leaves for the next."""

import pytest

from tests.grader.conftest import GradeText

RIGHT = """\
import torch
from torch import nn


class Heads(nn.Module):
    def __init__(self, width, n_heads, use_bias=False):
        super().__init__()
        sizes = width, width // n_heads, use_bias
        self.q, self.k, self.v = (
            nn.ModuleList(nn.Linear(*sizes) for _ in range(n_heads)) for _ in range(3)
        )
        self.proj = nn.Linear(width, width)

    def forward(self, x):
        outputs = []
        for number in range(len(self.q)):
            q, k, v = self.q[number](x), self.k[number](x), self.v[number](x)
            past = k.shape[1] - q.shape[1]
            future = torch.ones(q.shape[1], k.shape[1], dtype=torch.bool).triu(1 + past)
            scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(future, -torch.inf)
            outputs.append(scores.softmax(-1) @ v)
        return self.proj(torch.cat(outputs, dim=-1))
"""
KEPT = """\
            if getattr(self, "past", None) is not None and number == 0:
                k, v = torch.cat([self.past[0], k], 1), torch.cat([self.past[1], v], 1)
            if number == 0:
                self.past = k, v
            past ="""


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("width // n_heads, use_bias", "width // n_heads, False", "bias that is asked for"),
        ("cat(outputs, ", "cat(outputs[::-1], ", "reversed order"),
        ("            past =", KEPT, "kept from one call to the next"),
    ],
)
def test_what_changes_nothing_or_is_kept_is_a_mistake(
    grade_text: GradeText, old: str, new: str, said: str
) -> None:
    record = grade_text(RIGHT.replace(old, new))
    assert record.status == "failed"
    assert said in " ".join(each.sentence for each in record.diagnosis)


def test_an_option_with_an_effect_is_none(grade_text: GradeText) -> None:
    assert grade_text(RIGHT).status == "passed"
