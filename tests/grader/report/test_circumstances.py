"""A report tells how it was graded where that is unusual, and all of it when asked."""

from dataclasses import replace

import pytest

from headcheck.grader.report.pictures.captions import describe_seen
from headcheck.grader.report.records import EvidenceRecord, SandboxRecord, SeedRecord
from headcheck.grader.report.render import text
from headcheck.grader.sandbox.isolation import IsolationLevel
from tests.grader.report.records import make_property, make_report, make_submission
from tests.grader.report.test_pictures import WEIGHTS

ONE = make_submission(make_property("It runs."))


def render(level: str, kind: str, more: str) -> str:
    summary = IsolationLevel(level, ("landlock",)).summary
    sandbox, seed = SandboxRecord(level, (), summary), SeedRecord(kind, None)
    return text.render(replace(make_report(ONE), sandbox=sandbox, seed=seed), more)


def test_what_is_as_usual_is_told_when_asked() -> None:
    assert render("A", "public", "--verbose").endswith("  The check passes.\n")
    whole = "sandbox: level A: confined by landlock\ncases: the public ones, as in every check\n"
    assert render("A", "public", "").endswith(f"\n\n{whole}")


@pytest.mark.parametrize("level", ["B", "B-", "C", "D"])
def test_a_weaker_sandbox_is_always_told(level: str) -> None:
    assert f"\n\nsandbox: level {level}: " in render(level, "public", "--verbose")


def test_other_cases_are_always_told() -> None:
    assert render("A", "secret", "--verbose").endswith("\n\ncases: of a secret seed\n")


def test_a_figure_of_the_shown_case_is_no_other_input() -> None:
    evidence = EvidenceRecord(weights=WEIGHTS)
    assert describe_seen(evidence, "batch=1 tokens=2 float64").startswith("On another input: with ")
    assert describe_seen(evidence, "batch=1 tokens=3").startswith("With 3 tokens, token 0 gives")
