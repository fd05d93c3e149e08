"""Wrong answers are named for what they are, and right answers are not named at all.

A wrong answer that a mistake of the catalogue describes says so in its first line: `… (named:
no_scale)`, with two names where there are two. Any other name is wrong; none at all is a miss,
which is allowed for few. A wrong answer without such a line must not be named: whoever adds one
that is, and rightly, adds the line.
"""

import re

import pytest

from headcheck.exercises import ALL as EXERCISES
from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import Answer, find_answer, list_answers
from headcheck.properties.mistakes.catalogue import ALL
from headcheck.properties.mistakes.diagnosis import diagnose
from tests.submissions import load

pytestmark = pytest.mark.filterwarnings("ignore")

RIGHT_FIRST = 0.95
"""how large the share of first names that are right must be"""
SAMPLE = 36
"""in ordinary runs, one of so many wrong answers is looked at"""


def answers(kind: str) -> list[str]:
    """All answers of a kind, as `slug/name`."""
    return [f"{e.slug}/{answer.name}" for e in EXERCISES for answer in list_answers(e, kind)]


def answer_of(label: str) -> Answer:
    slug, name = label.split("/")
    return find_answer(BY_SLUG[slug], name)


def expected(answer: str) -> list[str]:
    """The names that a wrong answer announces."""
    found = re.search(r"\(named: ([\w, ]+)\)", answer_of(answer).description)
    return found[1].split(", ") if found else []


def named(answer: str) -> list[str]:
    harness = load(answer_of(answer), BY_SLUG[answer.split("/")[0]])
    return [finding.mistake.name for finding in diagnose(harness)]


def wrongly_named(answer: str) -> bool:
    return named(answer) not in ([], expected(answer))


ANSWERS = answers("wrong")
TAGGED = [answer for answer in ANSWERS if expected(answer)]
OTHERS = [answer for answer in ANSWERS if answer not in TAGGED]


def test_expected_diagnoses_exist() -> None:
    known = {each.name for each in ALL}
    assert {n for answer in TAGGED for n in expected(answer)} <= known


@pytest.mark.parametrize("answer", TAGGED[::SAMPLE])
def test_some_wrong_answers_get_the_right_diagnosis(answer: str) -> None:
    assert named(answer) == expected(answer)


@pytest.mark.parametrize("answer", OTHERS[::SAMPLE])
def test_some_wrong_answers_get_no_diagnosis(answer: str) -> None:
    assert named(answer) == []


@pytest.mark.parametrize("answer", answers("right")[::16])
def test_right_answer_gets_no_diagnosis(answer: str) -> None:
    assert named(answer) == []


@pytest.mark.deep
@pytest.mark.parametrize("answer", answers("right"))
def test_every_right_answer_gets_no_diagnosis(answer: str) -> None:
    assert named(answer) == []


@pytest.mark.deep
@pytest.mark.parametrize("slug", sorted(BY_SLUG))
def test_no_wrong_answer_gets_a_wrong_diagnosis(slug: str) -> None:
    of_this = [answer for answer in ANSWERS if answer.startswith(f"{slug}/")]
    assert [answer for answer in of_this if wrongly_named(answer)] == []


@pytest.mark.deep
def test_nearly_every_known_mistake_is_diagnosed() -> None:
    right = sum(named(a)[:1] == expected(a)[:1] for a in TAGGED)
    print(f"{right} of {len(TAGGED)} first names are right")  # noqa: T201  # seen with -s
    assert right >= RIGHT_FIRST * len(TAGGED)


def test_dropout_that_an_evaluation_ends_is_not_dropout_that_never_acts() -> None:
    assert named("multi_head_attention/an_evaluation_ends_dropout") == []
