"""What an option of a class offers is judged too."""

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from tests.grader.conftest import GradeAll, GradeText

OPTION = """\
import torch
from torch import nn


class Attend(nn.Module):
    def __init__(self, dim, heads, causal=False):
        super().__init__()
        self.heads, self.causal = heads, causal
        self.q, self.k, self.v, self.o = (nn.Linear(dim, dim) for _ in range(4))

    def forward(self, x, mask=None):
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        shown = torch.ones(1, 1, x.shape[1], x.shape[1], dtype=torch.bool)
        if mask is not None:
            shown = shown & mask[:, None, None]
        if self.causal:
            shown = shown & shown.tril()
        scores = (q @ k.mT / q.shape[-1] ** 0.5).masked_fill(~shown, -1e30)
        return self.o((scores.softmax(-1) @ v).transpose(1, 2).flatten(2))
"""


@pytest.mark.parametrize(
    ("new", "status", "notes"),
    [
        ("shown & shown.tril()", "passed", 4),
        ("shown | shown.tril()", "failed", 5),
        pytest.param("shown.triu()", "failed", 5, marks=pytest.mark.whole),
        # Padding comes last, and is later.
        pytest.param("torch.ones_like(shown).tril()", "passed", 4, marks=pytest.mark.whole),
    ],
)
def test_an_option_that_hides_later_tokens_is_judged_on_too(
    new: str, status: str, notes: int, grade_text: "GradeText"
) -> None:
    record = grade_text(OPTION.replace("shown & shown.tril()", new))
    assert (record.status, len(record.notes)) == (status, notes)
    said = "judged with `causal=True`, too: then it should hide later tokens"
    assert (said in [note.message for note in record.notes]) is (status == "failed")


NORMED = OPTION.replace("causal=False", "qk_norm=False").replace(
    "self.heads, self.causal = heads, causal",
    "self.heads = heads\n"
    "        made = nn.LayerNorm if qk_norm else lambda width: nn.Identity()\n"
    "        self.q_norm, self.k_norm = made(dim // heads), made(dim // heads)",
)
NORMED = NORMED.replace("        if self.causal:\n            shown = shown & shown.tril()\n", "")
NORMED = NORMED.replace(
    "        shown = torch",
    "        q, k = self.q_norm(q), self.k_norm(k)\n        shown = torch",
    1,
)


@pytest.mark.parametrize(("used", "statuses"), [("k_norm", 1), ("q_norm", 2)])
def test_every_part_that_an_option_adds_has_an_effect(
    used: str, statuses: int, grade_all: "GradeAll"
) -> None:
    records = grade_all(NORMED.replace("self.k_norm(k)", f"self.{used}(k)"))
    assert [each.status for each in records] == ["passed", "failed"][:statuses]
    if statuses > 1:
        assert "nothing reads `k_norm`" in str(records[1].properties)
        assert records[1].place is not None and len(records[1].place.lines) == 2
        told = [note.message for note in records[1].notes]
        assert told == ["judged with `qk_norm=True`, too, and this is wrong"]


OF_BERT = (
    OPTION.replace("causal=False", "")
    .replace("heads, )", "heads)")
    .replace("x, mask=None", "x, mask=None, encoder_states=None, encoder_mask=None")
)
OF_BERT = OF_BERT.replace("self.heads, self.causal = heads, causal", "self.heads = heads").replace(
    "        if self.causal:\n            shown = shown & shown.tril()\n", ""
)
OF_BERT = OF_BERT.replace(
    """        q, k, v = (
            layer(x).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer in (self.q, self.k, self.v)
        )
        shown = torch.ones(1, 1, x.shape[1], x.shape[1], dtype=torch.bool)
""",
    """        y = x if encoder_states is None else encoder_states
        mask = mask if encoder_states is None else encoder_mask
        q, k, v = (
            layer(t).unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for layer, t in ((self.q, x), (self.k, y), (self.v, y))
        )
        shown = torch.ones(1, 1, x.shape[1], y.shape[1], dtype=torch.bool)
""",
)


@pytest.mark.parametrize(
    ("old", "new", "status"),
    [
        ("(self.v, y)", "(self.v, y)", "passed"),
        ("else encoder_mask", "else None", "failed"),
        pytest.param("else encoder_mask", "else mask", "failed", marks=pytest.mark.whole),
    ],
)
def test_a_context_that_calls_may_take_is_judged_with_its_mask(
    old: str, new: str, status: str, grade_text: "GradeText"
) -> None:
    assert "encoder_states is None" in OF_BERT and "causal" not in OF_BERT
    record = grade_text(OF_BERT.replace(old, new))
    assert record.status == status
    said = "judged with a context in `encoder_states`, too"
    assert (said in [note.message for note in record.notes]) is (status == "failed")
