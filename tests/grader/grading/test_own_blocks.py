"""Blocks that compute their attention themselves are judged without their feed-forwards."""

import pytest

from tests.grader.conftest import GradeAll, GradeText

BLOCK = """\
import torch
from torch import nn
from torch.nn import functional as F


class Block(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.n_heads = n_heads
        self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)
        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)
        self.ff = nn.Sequential(
            nn.Linear(d_model, 4 * d_model), nn.GELU(), nn.Linear(4 * d_model, d_model)
        )

    def attend(self, x):
        q, k, v = (
            t.unflatten(-1, (self.n_heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
        )
        scores = q @ k.mT / q.shape[-1] ** 0.5
        later = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
        weights = scores.masked_fill(later, float("-inf")).softmax(-1)
        return self.proj((weights @ v).transpose(1, 2).flatten(2))

    def forward(self, x):
        x = x + self.attend(self.norm1(x))
        return x + self.ff(self.norm2(x))
"""
FIRST, SECOND = "x + self.attend(self.norm1(x))", "x + self.ff(self.norm2(x))"
POST_NORM = BLOCK.replace(FIRST, "self.norm1(x + self.attend(x))").replace(
    SECOND, "self.norm2(x + self.ff(x))"
)
NORMS = "        self.norm1, self.norm2 = nn.LayerNorm(d_model), nn.LayerNorm(d_model)\n"
PARALLEL = BLOCK.replace(f"x = {FIRST}", "n = self.norm1(x)").replace(
    SECOND, "x + self.attend(n) + self.ff(self.norm2(x))"
)


@pytest.mark.parametrize("source", [BLOCK, POST_NORM, PARALLEL])
def test_a_right_block_is_judged_as_attention(source: str, grade_text: GradeText) -> None:
    record = grade_text(source)
    assert (record.status, record.name) == ("passed", "Block")
    told = [note.message for note in record.notes]
    assert "judged without its feed-forward: the weights of `ff.0` and `ff.2` are zero" in told


@pytest.mark.parametrize(
    "source",
    [BLOCK, *(pytest.param(s, marks=pytest.mark.whole) for s in (POST_NORM, PARALLEL))],
)
def test_its_attention_fails_if_it_is_wrong(source: str, grade_text: GradeText) -> None:
    record = grade_text(source.replace("q.shape[-1] ** 0.5", "q.shape[-1]"))
    assert record.status == "failed"
    assert record.max_score > 10, "it is judged as attention"


UNKNOWN = [("q @ k.mT", "q @ k.flip(2).mT", 20), ("weights @ v", "weights @ v.flip(2)", 23)]
"""mistakes without a name, and their lines"""


@pytest.mark.parametrize(
    ("source", "old", "new", "line"),
    [
        (BLOCK, *UNKNOWN[0]),
        pytest.param(PARALLEL, *UNKNOWN[1], marks=pytest.mark.whole),
        pytest.param(BLOCK, *UNKNOWN[1], marks=pytest.mark.whole),
        pytest.param(POST_NORM, *UNKNOWN[0], marks=pytest.mark.whole),
    ],
)
def test_a_mistake_without_a_name_has_its_line(
    source: str, old: str, new: str, line: int, grade_text: GradeText
) -> None:
    record = grade_text(source.replace(old, new))
    assert record.status == "failed" and record.max_score > 100
    assert record.place is not None and f"line {line} does not give" in record.place.sentence


def test_a_block_whose_attention_is_another_class_is_judged_as_a_layer(
    grade_text: GradeText,
) -> None:
    own = "self.qkv, self.proj = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)"
    inner = "self.inner = nn.MultiheadAttention(d_model, n_heads, batch_first=True)"
    source = BLOCK.replace(own, inner).replace(
        "self.attend(self.norm1(x))", "self.inner(*[self.norm1(x)] * 3)[0]"
    )
    assert grade_text(source).max_score == 10


def test_what_stands_around_right_attention_is_judged_too(grade_all: GradeAll) -> None:
    attention, layer = grade_all(BLOCK.replace(FIRST, "self.attend(self.norm1(x))"))
    assert (attention.status, layer.status) == ("passed", "failed")
    told = [each.message for each in layer.properties if each.message]
    assert ["takes the place of its tokens" in each for each in told] == [True]
    assert layer.notes[0].message == (
        "judged as a layer, too: what stands around its attention is wrong"
    )


def test_a_block_without_a_feed_forward_adds_to_tokens_that_are_not_normed(
    grade_all: GradeAll,
) -> None:
    start, end = BLOCK.index("        self.ff"), BLOCK.index("    def attend")
    own = "self.norm1 = nn.LayerNorm(d_model)"
    alone = f"{BLOCK[:start]}        {own}\n\n{BLOCK[end:]}".replace(SECOND, "x").replace(NORMS, "")
    lost = alone.replace("x + self.attend", "self.norm1(x) + self.attend")
    lost = lost.replace("(nn.Module):", '(nn.Module):\n    """A pre-norm block."""\n', 1)
    assert [each.status for each in grade_all(alone)] == ["passed"]
    attention, layer = grade_all(lost)
    assert (attention.status, layer.status) == ("passed", "failed")
