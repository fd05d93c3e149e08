"""A causal class may also take a mask: of keys beside later tokens, or in place of those."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeText

CLASS = """\
import math
import torch
from torch import nn


class Padded(nn.Module):
    def __init__(self, d_model, n_heads):
        super().__init__()
        self.h = n_heads
        self.qkv, self.out = nn.Linear(d_model, 3 * d_model), nn.Linear(d_model, d_model)

    def forward(self, x, past=None, padding_mask=None):
        b, t, c = x.shape
        q, k, v = (y.view(b, t, self.h, -1).transpose(1, 2) for y in self.qkv(x).chunk(3, -1))
        s = q @ k.transpose(-1, -2) / math.sqrt(q.shape[-1])
        future = torch.ones(t, t, dtype=torch.bool, device=x.device).triu(1)
        s = s.masked_fill(future, float("-inf"))
        if padding_mask is not None:
            s = s.masked_fill(~padding_mask[:, None, None, :], float("-inf"))
        w = s.softmax(-1)
        return self.out((w @ v).transpose(1, 2).reshape(b, t, c))
"""
HIDDEN = '        s = s.masked_fill(future, float("-inf"))\n'
PADDED = 's = s.masked_fill(~padding_mask[:, None, None, :], float("-inf"))'
LATER = HIDDEN + "        if padding_mask is not None:\n            " + PADDED
REPLACING = LATER + "\n        else:\n    " + HIDDEN.rstrip()
WHOLE = HIDDEN + "        if mask is not None:\n            s = s.masked_fill(~mask"
OWN = "        future = future if mask is None else ~mask\n" + HIDDEN.rstrip()
AFTER = "(w if padding_mask is None else w * padding_mask[:, None, None])"
NAMED = CLASS.replace("padding_mask", "mask")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (CLASS, "its mask is true where a query may attend"),
        (CLASS.replace("fill(~padding", "fill(padding"), "its mask is true where a query may not"),
        (CLASS.replace("[:, None, None, :]", "[:, None]"), "its mask is true where a query may"),
    ],
)
def test_a_mask_that_is_followed_is_judged(source: str, told: str, grade_text: "GradeText") -> None:
    record = grade_text(source)
    assert record.status == "passed", record.properties
    assert any(note.message.startswith(told) for note in record.notes), record.notes


@pytest.mark.parametrize(
    "wrong",
    [
        CLASS.replace("[:, None, None, :]", "[:, None, :, None]"),
        CLASS.replace(PADDED, PADDED.replace('float("-inf")', "-10.0")),
        CLASS.replace(PADDED, "pass").replace(
            "softmax(-1)",
            "softmax(-1) * (1 if padding_mask is None else padding_mask[:, None, None])",
        ),
        CLASS.replace(LATER, REPLACING.removeprefix(HIDDEN)),
    ],
    ids=["of queries", "a small number", "after the softmax", "in place of later tokens"],
)
def test_a_mask_of_keys_that_is_not_followed_fails(wrong: str, grade_text: "GradeText") -> None:
    assert wrong != CLASS
    record = grade_text(wrong)
    assert record.status == "failed"


def test_a_mask_without_effect_is_named(grade_text: "GradeText") -> None:
    record = grade_text(CLASS.replace("s = s.masked_fill(~", "s.masked_fill(~"))
    assert [each.name for each in record.diagnosis] == ["given_mask_ignored"]


def test_a_whole_mask_may_replace_that_of_later_tokens(grade_text: "GradeText") -> None:
    source = NAMED.replace(LATER.replace("padding_mask", "mask"), OWN)
    assert "~mask" in source and source != NAMED
    record = grade_text(source)
    assert record.status == "passed", record.properties
    told = [note.message for note in record.notes]
    assert any("any other effect of it is not judged" in message for message in told)
