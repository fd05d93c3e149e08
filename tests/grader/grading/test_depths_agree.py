"""A mistake of one cause costs the same at both depths, and is told by the same check."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.settings import Settings
from headcheck.properties.terms.depth import Depth
from tests.grader.conftest import GradeText


def fix_dtype(slug: str) -> str:
    """Return a right answer whose weights of tokens are made in float32, whatever the input's."""
    source = BY_SLUG[slug].solution
    before = "torch.softmax("
    assert before in source
    return source.replace(before, "_in_single(") + (
        "\n\ndef _in_single(scores, dim):\n"
        "    if scores.dtype == torch.bfloat16:\n"
        "        scores = scores.float()\n"
        "    return torch.softmax(scores, dim=dim)\n"
    )


@pytest.mark.parametrize("slug", ["alibi", "multi_head_attention"])
def test_what_stops_in_bfloat16_loses_the_same_at_both_depths(
    grade_text: GradeText, slug: str
) -> None:
    answer, told = fix_dtype(slug), []
    for depth in Depth:
        record = grade_text(answer, Settings(exercise=BY_SLUG[slug], depth=depth))
        failed = [p.name for p in record.properties if p.status in ("failed", "crashed")]
        lost = {p.group for p in record.properties if p.points < p.max_points}
        told.append((failed, lost, record.score))
    assert told[0] == told[1]
    assert told[0][0] == ["bfloat16_runs"] and told[0][1] == {"precision"}
