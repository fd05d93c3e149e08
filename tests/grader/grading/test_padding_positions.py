"""Positions are counted over visible keys, and a required mask covers the keys of a cache."""

import pytest

from tests.grader.conftest import GradeText
from tests.properties.binding.strangers import FUSED, THIRDS, make

FALLS = make(
    name="Falling",
    init=FUSED + "\npowers = torch.arange(1.0, heads + 1, dtype=torch.float64)\n"
    "self.register_buffer('slopes', 2 ** (-8 * powers / heads), persistent=False)",
    call="x, attention_mask, past=None",
    project=THIRDS + "if past is not None:\n"
    "    k, v = torch.cat([past[0], k], dim=2), torch.cat([past[1], v], dim=2)\n"
    "n, m = q.shape[2], k.shape[2]\nkeep = attention_mask[:, None, None, :] != 0\n"
    "places = (attention_mask.cumsum(-1) - 1)[:, None, None, :]\n"
    "falling = self.slopes.to(x.dtype)[:, None, None] * places.to(x.dtype)\n"
    "future = torch.ones(n, m, dtype=torch.bool, device=x.device).triu(1 + m - n)",
    mask="s = (s + falling).masked_fill(future | ~keep, -torch.inf)",
    result="o, (k, v)",
)


def test_places_may_be_counted_over_the_keys_that_a_mask_shows(grade_text: GradeText) -> None:
    record = grade_text(FALLS)
    assert record.status == "passed", [p.name for p in record.properties if p.status != "passed"]
    assert {"cache", "mask"} <= {prop.group for prop in record.properties}


WRONG = [
    (".triu(1 + m - n)", ".triu(1)", "cache"),
    ("torch.cat([past[0], k], dim=2)", "torch.cat([k, past[0]], dim=2)", "cache"),
    ("future | ~keep", "future & ~keep", "mask"),
    ("attention_mask.cumsum(-1)", "attention_mask.flip(-1).cumsum(-1)", "values"),
]


@pytest.mark.sampled(("right", "wrong", "group"), WRONG, WRONG[::2])
def test_a_mistake_beside_the_counting_fails(
    grade_text: GradeText, right: str, wrong: str, group: str
) -> None:
    record = grade_text(FALLS.replace(right, wrong))
    assert group in {p.group for p in record.properties if p.status not in ("passed", "not_tried")}
