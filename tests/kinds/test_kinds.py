"""Kinds of attention without an exercise: right answers pass, wrong ones are caught and named."""

import re
from collections.abc import Sequence

import pytest

from headcheck.exercises import Exercise
from headcheck.exercises.answers import Answer, AnswerKind, load_bank
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.diagnosis import diagnose
from tests.git_changes import list_changed_files
from tests.kinds.bank import KINDS
from tests.submissions import accuse, load

pytestmark = pytest.mark.filterwarnings("ignore")

SOLUTIONS = [
    (kind, Answer(kind.slug, AnswerKind.SOLUTION, "solution", "", kind.solution))
    for kind in KINDS.values()
]
BANKS = [(kind, answer) for kind in KINDS.values() for answer in load_bank(kind)]
ANSWERS = {f"{kind.slug}/{each.name}": (kind, each) for kind, each in (*SOLUTIONS, *BANKS)}
WRONG = [label for label, (_, answer) in ANSWERS.items() if answer.is_wrong]
CHANGED = {path.split("/")[2] for path in list_changed_files() if path.startswith("tests/kinds/")}
STEP = 5
"""an ordinary run judges one of so many answers, and all answers of kinds that changed"""


def sample(labels: Sequence[str]) -> list[str]:
    return [
        label
        for number, label in enumerate(labels)
        if number % STEP == 0 or label.split("/")[0] in CHANGED
    ]


def find_broken(harness: Harness, kind: Exercise) -> str:
    """Return the first claim that does not hold, with the reason; nothing if all hold."""
    plan = kind.plan_cases(0, "cpu").items()
    reasons = (accuse(claim, harness, cases[::-1]) for claim, cases in plan)
    return next(filter(None, reasons), "")


@pytest.mark.sampled("label", ANSWERS, sample(list(ANSWERS)))
def test_a_right_answer_passes_and_a_wrong_one_is_caught(label: str) -> None:
    kind, answer = ANSWERS[label]
    harness = load(answer, kind)
    assert bool(broken := find_broken(harness, kind)) == answer.is_wrong, broken
    assert answer.is_wrong or not harness.notes, "a note says that something is unusual"


@pytest.mark.sampled("label", WRONG, sample(WRONG))
def test_a_wrong_answer_is_named_for_what_it_is(label: str) -> None:
    kind, answer = ANSWERS[label]
    announced = re.search(r"\(named: ([\w, ]+)\)", answer.description)
    found = [each.mistake.name for each in diagnose(load(answer, kind))]
    assert found == (announced[1].split(", ") if announced else [])
