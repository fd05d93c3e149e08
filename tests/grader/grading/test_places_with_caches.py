"""Where a call with a cache goes wrong, its first stage that is not right is told."""

import pytest

from tests.grader.conftest import GradeText
from tests.properties.binding.strangers import PROJECT, make

ROTATE = """
def rotate(t, start):
    half = t.shape[-1] // 2
    speed = 10_000 ** (-torch.arange(half) / half)
    places = torch.arange(start, start + t.shape[-2])
    angles = places[:, None] * speed
    a, b = t[..., :half], t[..., half:]
    return torch.cat([a * angles.cos() - b * angles.sin(), b * angles.cos() + a * angles.sin()], -1)
"""
CACHED = """
start = 0 if past is None else past[0].shape[2]
q = rotate(q, start)
k = rotate(k, start)
if past is not None:
    k = torch.cat([past[0], k], 2)
    v = torch.cat([past[1], v], 2)
seen = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool)
seen = seen.tril(start)
"""
SOURCE = make(
    name="CausalAttention",
    call="x, past=None",
    project=PROJECT + CACHED,
    scores="",
    softmax="y = F.scaled_dot_product_attention(q, k, v, attn_mask=seen)",
    out="o = self.out(y.transpose(1, 2).flatten(2))",
    result="o, (k, v)",
    before=ROTATE,
)


def find_line(source: str, text: str) -> int:
    return next(n for n, line in enumerate(source.splitlines(), 1) if text in line)


@pytest.mark.parametrize(
    ("old", "new", "wrong"),
    [
        ("q = rotate(q, start)", "q = rotate(q, 0)", "rotated queries"),
        pytest.param(
            "k = rotate(k, start)", "k = rotate(k, 0)", "rotated keys", marks=pytest.mark.whole
        ),
        ("seen.tril(start)", "seen.tril()", "heads' outputs"),
        ("torch.cat([past[1], v], 2)", "torch.cat([v, past[1]], 2)", "values of all tokens"),
        pytest.param(
            "torch.cat([past[0], k], 2)",
            "torch.cat([past[0] * 0.5, k], 2)",
            "keys of all tokens",
            marks=pytest.mark.whole,
        ),
    ],
)
def test_the_first_stage_that_is_wrong_with_a_cache_is_told(
    old: str, new: str, wrong: str, grade_text: GradeText
) -> None:
    source = SOURCE.replace(old, new)
    record = grade_text(source)
    assert record.status == "failed"
    assert {each.group for each in record.properties if each.status == "failed"} == {"cache"}
    assert record.place is not None
    assert record.place.sentence.startswith("With a cache, ")
    assert wrong in record.place.sentence
    assert find_line(source, new) in [each.line for each in record.place.lines]


def test_what_is_wrong_without_a_cache_is_told_first(grade_text: GradeText) -> None:
    record = grade_text(SOURCE.replace("q = rotate(q, start)", "q = rotate(q, start + 1)"))
    assert record.place is not None
    assert "With a cache" not in record.place.sentence


def test_a_right_class_has_no_place(grade_text: GradeText) -> None:
    record = grade_text(SOURCE)
    assert record.status == "passed" and record.place is None
