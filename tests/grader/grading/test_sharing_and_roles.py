"""Which heads share keys, and what functions with named roles compute."""

import pytest

from tests.grader.conftest import GradeText
from tests.properties.binding.strangers import make

SHARED = make(
    takes="dim, heads, kv_heads",
    init="self.kv_heads, own = kv_heads, dim // heads * kv_heads\n"
    "self.q, self.out = nn.Linear(dim, dim), nn.Linear(dim, dim)\n"
    "self.k, self.v = nn.Linear(dim, own), nn.Linear(dim, own)",
    project="""
q = self.q(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
k, v = (
    layer(x).unflatten(-1, (self.kv_heads, -1)).transpose(1, 2) for layer in (self.k, self.v)
)
times = self.heads // self.kv_heads
k, v = repeat_kv(k, times), repeat_kv(v, times)
""",
    before="""
def repeat_kv(t, times):
    return t.repeat(1, times, 1, 1)
""",
)


def test_neighbouring_heads_should_share(grade_text: GradeText) -> None:
    record = grade_text(SHARED)
    assert record.status == "failed"
    assert record.diagnosis[0].name == "keys_and_values_in_turn"
    assert "neighbouring heads should share" in str(record.notes)
    right = SHARED.replace("repeat(1, times, 1, 1)", "repeat_interleave(times, 1)")
    assert grade_text(right).status == "passed"


ATTEND = """\
import torch


def attend(query, key, value):
    scores = query @ key.transpose(-1, -2) / query.shape[-1] ** 0.5
    numbers = (scores - scores.amax(-1, keepdim=True)).exp()
    return numbers / numbers.sum(-1, keepdim=True) @ value
"""


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        pytest.param("amax(-1", "amax(-2", "softmax", marks=pytest.mark.whole),
        ("    scores =", "    query /= 2\n    scores =", "in place"),
        ("numbers.sum(-1, keepdim=True)", "(1 + numbers.sum(-1, keepdim=True))", ""),
    ],
)
def test_a_function_with_named_roles_is_judged_if_it_is_wrong(
    grade_text: GradeText, old: str, new: str, told: str
) -> None:
    assert grade_text(ATTEND).status == "passed"
    assert grade_text(ATTEND.replace(old, new)).status == "failed"


def test_a_function_of_another_kind_is_not_judged(grade_text: GradeText) -> None:
    other = ATTEND.replace(" / query.shape[-1] ** 0.5", " + value.sum(-1)[..., None, :]")
    assert grade_text(other).status == "not_tried"
