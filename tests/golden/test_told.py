"""What the authors of wrong answers are told is true of their mistake, and no more than fits.

`may_break.toml` says by hand what each of the commonest mistakes can break. A failed check that is
told of a wrong answer is true if its mistake is listed with it; a sentence that names a mistake, if
the answer says that it has this one. What is known to be told and untrue is listed, too, and counts
as such; anything else that is not in the table fails the test.
"""

import sys
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.report.records import SubmissionRecord, build_report
from headcheck.grader.report.render import text
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.properties import families
from headcheck.properties.mistakes.catalogue import ALL as MISTAKES
from headcheck.properties.mistakes.catalogue.structure import STRUCTURAL
from headcheck.properties.violations.violation import Status
from tests.golden.bank import grade, list_announced

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the fork server is Linux's")

TABLE = tomllib.loads(Path(__file__).with_name("may_break.toml").read_text(encoding="utf-8"))
PARTS: Mapping[str, list[str]] = TABLE["parts"]
SAID: Mapping[str, Mapping[str, list[str]]] = TABLE["mistakes"]
UNTRUE: Mapping[str, list[str]] = TABLE["untrue"]
WIDTH = 80
MAX_LINES_FOR_TWO = 27
"""the most lines of a mistake with another, or with failed checks that it does not explain"""
FINE = (Status.PASSED, Status.NOT_TRIED)


def list_true(mistakes: Sequence[str]) -> set[str]:
    """The claims that these mistakes break, and what may be named beside them."""
    true = set(mistakes)
    for said in (SAID[name] for name in mistakes):
        true |= {claim for part in said.get("parts", ()) for claim in PARTS[part]}
        true |= {*said.get("claims", ()), *said.get("names", ())}
    return true


def list_told(record: SubmissionRecord) -> list[str]:
    """The mistakes and the failed checks that a report tells of."""
    failed = [each.name for each in record.properties if each.status not in FINE]
    return [each.name for each in record.diagnosis] + failed


def has_something_beside(record: SubmissionRecord) -> bool:
    """Whether a report names a mistake, and beside it another or what it does not explain."""
    unexplained = any(not p.follows for p in record.properties if p.status not in FINE)
    return len(record.diagnosis) > 1 or (len(record.diagnosis) == 1 and unexplained)


KNOWN: Sequence[str] = TABLE["looked_up"]
SAMPLE = KNOWN[::80]


def test_the_table_is_about_what_there_is() -> None:
    claims = {each.name for each in families.ALL}
    mistakes = {each.name for each in MISTAKES}
    structural = {each.mistake.name for each in STRUCTURAL}
    assert {claim for part in PARTS.values() for claim in part} <= claims
    assert {claim for said in SAID.values() for claim in said.get("claims", ())} <= claims
    assert {name for said in SAID.values() for name in said.get("names", ())} <= structural
    assert {part for said in SAID.values() for part in said.get("parts", ())} <= PARTS.keys()
    assert SAID.keys() <= mistakes and len(SAID) >= 60


@pytest.mark.parametrize("mistake", UNTRUE)
def test_what_is_untrue_is_not_called_true_elsewhere(mistake: str) -> None:
    assert list_true([mistake]).isdisjoint(UNTRUE[mistake])
    assert {each.name for each in families.ALL} >= set(UNTRUE[mistake])


@pytest.mark.sampled("answer", KNOWN, SAMPLE)
def test_nothing_else_that_is_untrue_is_told(server: ServerHandle, answer: str) -> None:
    slug, name = answer.split("/")
    wrong = find_answer(BY_SLUG[slug], name)
    record = grade(server, slug, wrong)
    mistakes = list_announced(wrong)
    listed = {claim for mistake in mistakes for claim in UNTRUE.get(mistake, ())}
    assert set(list_told(record)) - list_true(mistakes) - listed == set()
    shown = text.render(build_report([record]), "--verbose").splitlines()
    rows = sum(max(1, -(-len(line) // WIDTH)) for line in shown)
    assert rows <= (MAX_LINES_FOR_TWO if has_something_beside(record) else text.MAX_LINES)
