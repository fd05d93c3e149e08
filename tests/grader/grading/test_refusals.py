"""What a class without an exercise refuses to take is left out, and is no mistake of the class."""

import pytest

from tests.grader.conftest import GradeText

ATTENTION = """\
import torch
from torch import nn


class Mixer(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        {built}
        self.heads = heads
        self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None):
        {called}
        q, k, v = (
            f(x).unflatten(-1, (self.heads, -1)).transpose(1, 2) for f in (self.q, self.k, self.v)
        )
        s = q @ k.mT / q.shape[-1] ** 0.5
        if mask is not None:
            s = s.masked_fill(mask == 0, -1e9)
        w = s.softmax(-1{dtype})
        return self.out((w @ v).transpose(1, 2).flatten(2))
"""
REFUSALS = {
    "widths of heads": {"built": "assert dim // heads % 4 == 0, 'heads of multiples of 4'"},
    "numbers of heads": {"built": "if heads % 2:\n            raise ValueError('an even number')"},
    "a single token": {"called": "assert x.shape[1] > 1, 'more than one token'"},
}


def write(built: str = "pass", called: str = "pass", dtype: str = "") -> str:
    return ATTENTION.format(built=built, called=called, dtype=dtype)


@pytest.mark.parametrize("kind", REFUSALS)
def test_what_a_class_refuses_is_not_held_against_it(grade_text: GradeText, kind: str) -> None:
    record = grade_text(write(**REFUSALS[kind]))
    assert record.status == "passed" and record.score == record.max_score, record.properties


@pytest.mark.parametrize("kind", REFUSALS)
def test_a_mistake_beside_a_refusal_is_told(grade_text: GradeText, kind: str) -> None:
    record = grade_text(write(**REFUSALS[kind]).replace("q.shape[-1] ** 0.5", "q.shape[-1]"))
    assert record.status == "failed"
    assert any(p.name == "it_equals_the_equation" for p in record.properties if p.message)


def test_what_fails_without_refusing_is_a_mistake(grade_text: GradeText) -> None:
    """A call with one token raises an error of torch, and not one of the class."""
    record = grade_text(write(called="x = x.squeeze(1)"))
    assert record.status == "failed"


def test_a_class_for_one_precision_is_judged_in_it(grade_text: GradeText) -> None:
    record = grade_text(write(dtype=", dtype=torch.float32"))
    assert record.status == "passed" and record.score == record.max_score
    notes = [note.message for note in record.notes]
    assert "it computes in float32 only, and is judged in this precision" in notes
    assert not any("no mask" in text or "drops" in text for text in notes)


def test_a_mistake_in_one_precision_is_told(grade_text: GradeText) -> None:
    wrong = write(dtype=", dtype=torch.float32").replace("q.shape[-1] ** 0.5", "q.shape[-1]")
    assert grade_text(wrong).status == "failed"
