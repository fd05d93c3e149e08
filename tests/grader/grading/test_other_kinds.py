"""Attention whose equation is not known is judged by what holds for every layer."""

import pytest

from tests.grader.conftest import GradeText
from tests.properties.binding.strangers import CAUSAL, SEPARATE, make

RELATIVE = make(
    name="RelativeAttention",
    takes="dim, heads, clip=3",
    init=SEPARATE + "\nself.clip = clip\n"
    "self.rel_pos_keys = nn.Embedding(2 * clip + 1, dim // heads)",
    scores="places = torch.arange(x.shape[1])\n"
    "far = (places - places[:, None]).clamp(-self.clip, self.clip) + self.clip\n"
    "s = q @ k.mT + torch.einsum('bhqd,qkd->bhqk', q, self.rel_pos_keys(far))\n"
    "s = s / q.shape[-1] ** 0.5",
    mask=CAUSAL,
)
SAID = "attention with a vector for each distance: judged by what holds for every layer, not by"
WRONG = {
    "vectors of places that depend on the length": (
        "(places - places[:, None])",
        "(places - places[:, None] + x.shape[1] % 2)",
        "later_tokens_stay_hidden",
    ),
    "a layer that nothing reads": ("(self.q, self.k, self.v)", "(self.q, self.k, self.k)", None),
    "heads of all sequences in one": (
        "(w @ v)",
        "(w @ v.mean(0, keepdim=True))",
        "sequences_do_not_mix",
    ),
}


def test_right_attention_of_another_kind_passes_and_this_is_said(grade_text: GradeText) -> None:
    record = grade_text(RELATIVE)
    assert (record.status, record.score, record.max_score) == ("passed", 10, 10)
    assert any(SAID in note.message for note in record.notes)


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_attention_of_another_kind_is_told(kind: str, grade_text: GradeText) -> None:
    right, wrong, claim = WRONG[kind]
    assert right in RELATIVE
    record = grade_text(RELATIVE.replace(right, wrong))
    failed = [each.name for each in record.properties if each.status == "failed"]
    assert failed == [claim or "every_part_has_an_effect"]


def test_attention_of_no_kind_that_is_known_by_name_stays_unjudged(grade_text: GradeText) -> None:
    record = grade_text(RELATIVE.replace("rel_pos_keys", "table"))
    assert record.status == "not_tried" and record.error is not None
