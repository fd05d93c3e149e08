"""Wrong answers are named for what they are, and right answers are not named at all.

A wrong answer that a misconception describes says so in its first line: `… (named: no_scale)`, with
two names where there are two. Any other name is wrong; none at all is a miss, which is allowed for
few. A wrong answer without such a line must not be named: whoever adds one that is, and rightly,
adds the line.
"""

import importlib.util
import re
import sys
from pathlib import Path

import pytest

from exercises import ALL as EXERCISES
from exercises import BY_SLUG
from grader.sandbox.grader_side.subject import make_subject
from properties.harness.harness import Harness
from properties.mistakes.catalogue import ALL
from properties.mistakes.diagnosis import diagnose

pytestmark = pytest.mark.filterwarnings("ignore")

RIGHT_FIRST = 0.95
"""how large the share of first names that are right must be"""
SAMPLE = 12
"""in ordinary runs, one of so many wrong answers is looked at"""


def answers(kind: str) -> list[str]:
    """All answers of a kind, as `slug/name`."""
    return [
        f"{exercise.slug}/{path.stem}"
        for exercise in EXERCISES
        for path in sorted((exercise.folder / "answers" / kind).glob("*.py"))
    ]


def path_of(answer: str, kind: str) -> Path:
    slug, name = answer.split("/")
    return BY_SLUG[slug].folder / "answers" / kind / f"{name}.py"


def expected(answer: str) -> list[str]:
    """The names that a wrong answer announces."""
    first = path_of(answer, "wrong").read_text(encoding="utf-8").partition("\n")[0]
    found = re.search(r"\(named: ([\w, ]+)\)", first)
    return found[1].split(", ") if found else []


def named(answer: str, kind: str) -> list[str]:
    spec = importlib.util.spec_from_file_location("submission", path_of(answer, kind))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["submission"] = module
    spec.loader.exec_module(module)
    contract = BY_SLUG[answer.split("/")[0]].contract
    harness = Harness(make_subject(vars(module)), contract)
    return [finding.mistake.name for finding in diagnose(harness)]


def wrongly_named(answer: str) -> bool:
    return named(answer, "wrong") not in ([], expected(answer))


ANSWERS = answers("wrong")
TAGGED = [answer for answer in ANSWERS if expected(answer)]
OTHERS = [answer for answer in ANSWERS if answer not in TAGGED]


def test_expected_diagnoses_exist() -> None:
    known = {each.name for each in ALL}
    assert {n for answer in TAGGED for n in expected(answer)} <= known


@pytest.mark.parametrize("answer", TAGGED[::SAMPLE])
def test_some_wrong_answers_get_the_right_diagnosis(answer: str) -> None:
    assert named(answer, "wrong") == expected(answer)


@pytest.mark.parametrize("answer", OTHERS[::SAMPLE])
def test_some_wrong_answers_get_no_diagnosis(answer: str) -> None:
    assert named(answer, "wrong") == []


@pytest.mark.parametrize("answer", answers("right")[::4])
def test_right_answer_gets_no_diagnosis(answer: str) -> None:
    assert named(answer, "right") == []


@pytest.mark.deep
@pytest.mark.parametrize("answer", answers("right"))
def test_every_right_answer_gets_no_diagnosis(answer: str) -> None:
    assert named(answer, "right") == []


@pytest.mark.deep
@pytest.mark.parametrize("slug", sorted(BY_SLUG))
def test_no_wrong_answer_gets_a_wrong_diagnosis(slug: str) -> None:
    of_this = [answer for answer in ANSWERS if answer.startswith(f"{slug}/")]
    assert [answer for answer in of_this if wrongly_named(answer)] == []


@pytest.mark.deep
def test_nearly_every_known_mistake_is_diagnosed() -> None:
    right = sum(named(a, "wrong")[:1] == expected(a)[:1] for a in TAGGED)
    print(f"{right} of {len(TAGGED)} first names are right")  # noqa: T201  # seen with -s
    assert right >= RIGHT_FIRST * len(TAGGED)
