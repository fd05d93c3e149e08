"""From a finding to a record: the line to look at, and what the code decides."""

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.diagnosis import (
    diagnose_failures,
    find_code_pattern,
    record_diagnoses,
    record_diagnosis,
)
from headcheck.grader.reading.code_patterns import CodePattern
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import ALL, CodeMatcher, Mistake
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import Status


def mistake(name: str, *look_for: CodeMatcher) -> Mistake:
    return Mistake(name, f"It is {name}.", look_for, ())


def mark(kind: str, detail: str = "", line: int = 1) -> CodePattern:
    return CodePattern(kind, detail, 2, line)


OVER_QUERIES = mistake(
    "over_queries", CodeMatcher("softmax", r"dim=(1|-2)$"), CodeMatcher("softmax")
)
CONTRACT = BY_SLUG["multi_head_attention"].contract
TRANSPOSED = mistake("transposed", CodeMatcher("mix"))
MARKS = [mark("softmax", "dim=-1", 3), mark("softmax", "dim=1", 5), mark("mix", "w @ v", 7)]


def test_most_specific_pattern_decides() -> None:
    at = find_code_pattern(OVER_QUERIES, MARKS)
    assert at is not None
    assert at.line == 5


def test_first_pattern_of_the_next_kind_is_the_fallback() -> None:
    at = find_code_pattern(
        OVER_QUERIES, [mark("softmax", "dim=self.dim", 4), mark("softmax", "dim=-1", 6)]
    )
    assert at is not None
    assert at.line == 4


def test_last_pattern_is_used_if_specified() -> None:
    at = find_code_pattern(
        mistake("merged", CodeMatcher("reshape", last=True)),
        [mark("reshape"), mark("reshape", line=9)],
    )
    assert at is not None
    assert at.line == 9


def test_no_code_pattern_gives_no_location() -> None:
    made = record_diagnosis(DiagnosedMistake(OVER_QUERIES, 5, 7), [mark("scores")], CONTRACT)
    assert (made.name, made.cell, made.line) == ("over_queries", None, None)
    assert (made.cases_matched, made.cases_tried) == (5, 7)


def test_indistinguishable_mistakes_are_both_named() -> None:
    made = record_diagnosis(
        DiagnosedMistake(TRANSPOSED, 7, 7, (mistake("other"),)), MARKS, CONTRACT
    )
    assert made.name == "transposed"
    assert made.sentence == "It is transposed. Or: It is other."


def test_code_pattern_decides_between_mistakes() -> None:
    made = record_diagnosis(DiagnosedMistake(TRANSPOSED, 7, 7, (OVER_QUERIES,)), MARKS, CONTRACT)
    assert (made.name, made.sentence) == ("over_queries", "It is over_queries.")
    assert (made.cell, made.line) == (2, 5)


def test_a_line_that_serves_the_other_result_alone_is_not_named() -> None:
    marks = [CodePattern("softmax", "dim=-1", 2, n, result) for n, result in ((3, 0), (5, 1))]
    lines = [
        record_diagnosis(DiagnosedMistake(OVER_QUERIES, 7, 7, output=n), marks, CONTRACT).line
        for n in (0, 1, None)
    ]
    assert lines == [3, 5, 3]


def test_a_mistake_in_one_of_two_results_is_told_of_that_one() -> None:
    told = [
        record_diagnosis(DiagnosedMistake(OVER_QUERIES, 7, 7, output=n), (), CONTRACT).sentence
        for n in (0, 1, None)
    ]
    assert told == [
        "In the first result: It is over_queries.",
        "In the second result: It is over_queries.",
        "It is over_queries.",
    ]


def test_a_mistake_has_an_example_with_round_numbers() -> None:
    no_scale = next(each for each in ALL if each.name == "no_scale")
    made = record_diagnosis(DiagnosedMistake(no_scale, 7, 7), MARKS, CONTRACT).example
    assert made is not None
    assert (made.given, made.result, made.sizes) == (
        "q·k",
        "scores",
        "2 tokens, queries of width 4",
    )
    assert (made.right, made.wrong) == ((("2", "1"), ("2", "0")), made.before)


def test_of_two_possible_mistakes_there_is_no_example() -> None:
    no_mask, other = (each for each in ALL if each.name in ("no_mask", "mask_inverted"))
    assert record_diagnosis(DiagnosedMistake(no_mask, 7, 7), [], CONTRACT).example is not None
    assert record_diagnosis(DiagnosedMistake(no_mask, 7, 7, (other,)), [], CONTRACT).example is None


def test_every_code_pattern_can_occur() -> None:
    """Passes if nothing is raised: every pattern is one that the search knows."""
    for each in ALL:
        find_code_pattern(each, MARKS)


@pytest.mark.parametrize("status", [Status.PASSED, Status.TIMED_OUT, Status.OUT_OF_MEMORY])
def test_passed_or_unaskable_submission_is_not_diagnosed(
    status: Status, monkeypatch: pytest.MonkeyPatch
) -> None:
    def diagnosed(harness: Harness, device: str) -> tuple[DiagnosedMistake, ...]:
        pytest.fail("it was")

    monkeypatch.setattr("headcheck.grader.grading.diagnosis.diagnose", diagnosed)
    verdict = Verdict(None, status)  # type: ignore[arg-type]
    nothing: Session = None  # type: ignore[assignment]
    assert diagnose_failures(nothing, nothing, [verdict], "cpu") == ()  # type: ignore[arg-type]
    assert record_diagnoses(nothing, (), CONTRACT, None) == []
