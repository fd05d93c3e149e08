"""Linear attention is judged in its usual form, and by what holds for every layer in others."""

import pytest

from tests.grader.conftest import GradeText
from tests.properties.binding.strangers import make

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
