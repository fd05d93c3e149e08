"""A causal class may also take a mask: of keys beside later tokens, or in place of those."""

import pytest

from tests.grader.conftest import GradeText
from tests.properties.binding.strangers import CAUSAL, FUSED, THIRDS, make

PADDED = "s = s.masked_fill(~padding_mask[:, None, None, :], float('-inf'))"


def write(mask: str, weights: str = "", name: str = "padding_mask") -> str:
    call = f"x, past=None, {name}=None"
    return make(init=FUSED, call=call, project=THIRDS, mask=mask, weights=weights)


CLASS = write(f"{CAUSAL}\nif padding_mask is not None:\n    {PADDED}")


@pytest.mark.parametrize(
    ("source", "told"),
    [
        (CLASS, "its mask is true where a query may attend"),
        (CLASS.replace("fill(~padding", "fill(padding"), "its mask is true where a query may not"),
        (CLASS.replace("[:, None, None, :]", "[:, None]"), "its mask is true where a query may"),
    ],
)
def test_a_mask_that_is_followed_is_judged(source: str, told: str, grade_text: GradeText) -> None:
    record = grade_text(source)
    assert record.status == "passed", record.properties
    assert any(note.message.startswith(told) for note in record.notes), record.notes


@pytest.mark.parametrize(
    "wrong",
    [
        CLASS.replace("[:, None, None, :]", "[:, None, :, None]"),
        CLASS.replace("float('-inf')", "-10.0"),
        write(CAUSAL, "w = w if padding_mask is None else w * padding_mask[:, None, None]"),
        write(f"if padding_mask is not None:\n    {PADDED}\nelse:\n    {CAUSAL}"),
    ],
    ids=["of queries", "a small number", "after the softmax", "in place of later tokens"],
)
def test_a_mask_of_keys_that_is_not_followed_fails(wrong: str, grade_text: GradeText) -> None:
    assert wrong != CLASS
    record = grade_text(wrong)
    assert record.status == "failed"


def test_a_mask_without_effect_is_named(grade_text: GradeText) -> None:
    record = grade_text(CLASS.replace("s = s.masked_fill(~", "s.masked_fill(~"))
    assert [each.name for each in record.diagnosis] == ["given_mask_ignored"]


def test_a_whole_mask_may_replace_that_of_later_tokens(grade_text: GradeText) -> None:
    future = "future = torch.ones_like(s, dtype=torch.bool).triu(1)"
    own = "s = s.masked_fill(future if mask is None else ~mask, -torch.inf)"
    record = grade_text(write(f"{future}\n{own}", name="mask"))
    assert record.status == "passed", record.properties
    told = [note.message for note in record.notes]
    assert any("any other effect of it is not judged" in message for message in told)
