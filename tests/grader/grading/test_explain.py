"""From a finding to a record: the line to look at, and what the code decides."""

import pytest

from grader.grading.explain import findings, named, place, record
from grader.reading.code_patterns import Landmark
from grader.sandbox.grader_side.session import Session
from properties.harness.harness import Bench
from properties.mistakes.catalogue import ALL, Look, Misconception
from properties.mistakes.diagnosis import Finding
from properties.property import Verdict
from properties.violation import Status


def mistake(name: str, *look_for: Look) -> Misconception:
    return Misconception(name, f"It is {name}.", look_for, ())


def mark(kind: str, detail: str = "", line: int = 1) -> Landmark:
    return Landmark(kind, detail, 2, line)


OVER_QUERIES = mistake("over_queries", Look("softmax", r"dim=(1|-2)$"), Look("softmax"))
TRANSPOSED = mistake("transposed", Look("mix"))
MARKS = [mark("softmax", "dim=-1", 3), mark("softmax", "dim=1", 5), mark("mix", "w @ v", 7)]


def test_the_most_telling_mark_decides() -> None:
    at = place(OVER_QUERIES, MARKS)
    assert at is not None
    assert at.line == 5


def test_else_the_first_of_the_next_kind_does() -> None:
    at = place(OVER_QUERIES, [mark("softmax", "dim=self.dim", 4), mark("softmax", "dim=-1", 6)])
    assert at is not None
    assert at.line == 4


def test_the_last_one_where_that_is_meant() -> None:
    at = place(
        mistake("merged", Look("reshape", last=True)), [mark("reshape"), mark("reshape", line=9)]
    )
    assert at is not None
    assert at.line == 9


def test_without_a_mark_there_is_no_place() -> None:
    made = record(Finding(OVER_QUERIES, 5, 7), [mark("scores")])
    assert (made.name, made.cell, made.line) == ("over_queries", None, None)
    assert (made.cases_matched, made.cases_tried) == (5, 7)


def test_of_two_alike_both_are_said() -> None:
    made = record(Finding(TRANSPOSED, 7, 7, (mistake("other"),)), MARKS)
    assert made.name == "transposed"
    assert made.sentence == "It is transposed. Or: It is other."


def test_unless_the_code_decides() -> None:
    made = record(Finding(TRANSPOSED, 7, 7, (OVER_QUERIES,)), MARKS)
    assert (made.name, made.sentence) == ("over_queries", "It is over_queries.")
    assert (made.cell, made.line) == (2, 5)


def test_what_to_look_for_can_be_looked_for() -> None:
    for each in ALL:
        place(each, MARKS)


@pytest.mark.parametrize("status", [Status.PASSED, Status.TIMED_OUT, Status.OUT_OF_MEMORY])
def test_what_passed_or_cannot_be_asked_is_not_diagnosed(
    status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diagnosed(bench: Bench, device: str) -> tuple[Finding, ...]:
        pytest.fail("it was")

    monkeypatch.setattr("grader.grading.explain.diagnose", diagnosed)
    verdict = Verdict(None, status)  # type: ignore[arg-type]
    nothing: Session = None  # type: ignore[assignment]
    assert findings(nothing, nothing, [verdict], "cpu") == ()  # type: ignore[arg-type]
    assert named(nothing, ()) == []
