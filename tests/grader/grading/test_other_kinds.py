"""Attention of other kinds: linear in its usual form, the rest by what holds for every layer."""

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


# ------------------------------------------------------------------------------- linear

LINEAR = make(
    name="LinearAttention",
    scores="q, k = FEATURES",
    softmax="sums = q @ k.sum(2).unsqueeze(-1) + 1e-6",
    out="o = self.out((q @ (k.mT @ v) / sums).transpose(1, 2).flatten(2))",
)
USUAL = LINEAR.replace("FEATURES", "F.elu(q) + 1, F.elu(k) + 1")
FEATURES = [
    ("F.elu(q) + 1, F.elu(k) + 1", "passed"),
    ("F.elu(q), F.elu(k)", "failed"),
    ("q.softmax(-1), k.softmax(-2)", "passed"),
    ("F.elu(q) + 1, F.elu(q) + 1", "failed"),
    ("q.relu(), k.relu()", "not_tried"),
]


@pytest.mark.sampled(("features", "status"), FEATURES, FEATURES[:2])
def test_features_tell_what_is_judged(grade_text: GradeText, features: str, status: str) -> None:
    assert grade_text(LINEAR.replace("FEATURES", features)).status == status


def test_a_number_added_to_the_sums_is_part_of_the_equation(grade_text: GradeText) -> None:
    assert grade_text(USUAL.replace("1e-6", "1e-5")).status == "passed"
    assert grade_text(USUAL.replace(" + 1e-6", "")).status == "passed"
    assert grade_text(USUAL.replace("+ 1e-6", "+ 1")).status == "failed"


@pytest.mark.whole
def test_sums_may_be_written_with_einsum(grade_text: GradeText) -> None:
    source = USUAL.replace("LinearAttention", "LinAttn").replace(" + 1e-6", "")
    source = source.replace("(k.mT @ v)", "torch.einsum('bhtd,bhte->bhde', k, v)")
    assert grade_text(source).status == "passed"
    assert grade_text(source.replace("k.sum(2)", "k.mean(2)")).status in ("failed", "not_tried")
