"""Right answers in unusual styles get all points, also from a file and under another seed."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import list_answers
from headcheck.grader.grading.settings import Settings
from headcheck.grader.seed import make_seed
from tests.grader.conftest import GradeText


@pytest.mark.parametrize(
    ("slug", "style"),
    [
        ("gpt2_size", "partial_application"),
        ("weight_transfer", "one_long_vector"),  # a copy of it is rounded in another order
    ],
)
def test_an_answer_in_an_unusual_style_is_right(
    slug: str, style: str, grade_text: GradeText
) -> None:
    exercise = BY_SLUG[slug]
    [answer] = [each for each in list_answers(exercise, "right") if each.name == style]
    record = grade_text(answer.source, Settings(exercise=exercise, seed=make_seed(2)))
    assert (record.status, record.score) == ("passed", record.max_score)
