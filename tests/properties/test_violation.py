"""What is said when a property fails, word for word, and in which order."""

import pytest

from headcheck.properties.contracts.contract import Capability
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.property import Property, PropertyGroup, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
    format_location,
    head_check,
)

CASE = Case(batch=1, tokens=2, context_length=2, d_in=3, heads=2, head_dim=1, seed=7)
SHOWN = "batch=1 tokens=2 context_length=2 d_in=3 d_out=2 heads=2 float64 cpu seed=7"


def never(context: CaseContext) -> None:
    raise AssertionError(f"nobody judges {context}")


def claim(text: str, hint: str = "") -> Property:
    needs = frozenset(Capability)
    return Property("it", text, PropertyGroup.VALUES, check=never, hint=hint, needs=needs)


def test_a_violation_says_claim_expected_got_where_case_and_hint() -> None:
    got = "0.25; 1 of 2 elements is off"
    bare = Violation(ViolationKind.VALUE, "0.5 ± 1e-07", got, "output[0, 1]")
    told = bare.with_details("Rows sum to one.", SHOWN, "softmax over the keys")
    assert str(told) == (
        "Fails: Rows sum to one.\n"
        "  expected  0.5 ± 1e-07 at output[0, 1]\n"
        "  got       0.25; 1 of 2 elements is off\n"
        f"  on        {SHOWN}\n"
        "  hint      softmax over the keys"
    )


def test_unknown_parts_are_left_out() -> None:
    told = Violation(ViolationKind.TYPE, "the output (1 tensor)", "a list")
    assert str(told) == "\n  expected  the output (1 tensor)\n  got       a list"
    assert str(told.with_details("It answers.", "", "")) == (
        "Fails: It answers.\n  expected  the output (1 tensor)\n  got       a list"
    )


def test_a_hint_of_its_own_beats_that_of_the_property() -> None:
    own = Violation(ViolationKind.VALUE, "1", "2", hint="look at the mask")
    assert own.with_details("A claim.", "a case", "look anywhere").hint == "look at the mask"
    assert own.with_details("A claim.", "a case", "").hint == "look at the mask"
    without = Violation(ViolationKind.VALUE, "1", "2")
    assert without.with_details("A claim.", "a case", "look anywhere").hint == "look anywhere"


def test_filling_in_leaves_the_original_as_it_was() -> None:
    bare = Violation(ViolationKind.VALUE, "1", "2", "output")
    bare.with_details("A claim.", "a case", "a hint")
    assert (bare.claim, bare.case, bare.hint) == ("", "", "")


def test_a_violation_can_be_raised_and_caught_with_its_notes() -> None:
    with pytest.raises(Violation) as caught:
        raise Violation(ViolationKind.SHAPE, "shape (1, 2)", "shape (2, 1)")
    caught.value.add_note("Hypothesis writes here")
    assert caught.value.kind is ViolationKind.SHAPE


def test_two_violations_of_equal_words_are_different_events() -> None:
    # They are kept in sets and compared by Hypothesis, as all exceptions are.
    one, other = (Violation(ViolationKind.VALUE, "1", "2") for _ in range(2))
    assert one != other
    assert len({one, other}) == 2


@pytest.mark.parametrize(
    ("cell", "line", "shown"),
    [
        (None, None, ""),
        (7, None, " (cell 7)"),
        (None, 3, " (line 3)"),
        (7, 3, " (cell 7, line 3)"),
        (0, 0, " (cell 0, line 0)"),
    ],
)
def test_failure_names_the_location_in_the_student_s_code(
    cell: int | None, line: int | None, shown: str
) -> None:
    assert format_location(cell, line) == shown
    failure = SubmissionFailed(Status.CRASHED, "ValueError: no", cell, line)
    assert str(failure) == f"ValueError: no{shown}"


def test_a_failed_verdict_says_what_its_violation_says() -> None:
    bare = Violation(ViolationKind.VALUE, "1", "2")
    told = bare.with_details("One is one.", str(CASE), "count again")
    verdict = Verdict(claim("One is one."), Status.FAILED, 1, CASE, violation=told)
    assert verdict.message == (
        "Fails: One is one.\n  expected  1\n  got       2\n"
        f"  on        {SHOWN}\n  hint      count again"
    )


def test_a_crashed_verdict_says_what_was_raised_and_on_which_case() -> None:
    failure = SubmissionFailed(Status.CRASHED, "RuntimeError: view size", cell=4, line=12)
    asked = claim("It has a shape.", hint="use reshape()")
    verdict = Verdict(asked, Status.CRASHED, 1, CASE, failure=failure, case_description=SHOWN)
    assert verdict.message == (
        "Crashed in this check: It has a shape.\n"
        "  got       RuntimeError: view size (cell 4, line 12)\n"
        f"  on        {SHOWN}"
    )


def test_a_failure_without_case_and_hint_says_only_what_happened() -> None:
    failure = SubmissionFailed(Status.TIMED_OUT, "it took more than 10 s")
    verdict = Verdict(claim("It ends."), Status.TIMED_OUT, failure=failure)
    got = "  got       it took more than 10 s"
    assert verdict.message == f"Took too long in this check: It ends.\n{got}"


def test_a_passed_verdict_says_nothing() -> None:
    assert Verdict(claim("All is well."), Status.PASSED, cases_tried=3).message == ""


def test_untried_verdict_names_the_failed_prerequisite() -> None:
    first = claim("It can be built.")
    verdict = Verdict(claim("It is right."), Status.NOT_TRIED, blocked_by=first)
    assert verdict.message == "Not tried, because this check did not pass: It can be built."


def test_a_better_hint_replaces_the_property_s() -> None:
    told = Violation(ViolationKind.VALUE, "1", "2").with_details("A claim.", "", "count again")
    better = "the scores are divided by 2, not by √2"
    verdict = Verdict(claim("A claim."), Status.FAILED, violation=told, hint=better)
    got = "  expected  1\n  got       2"
    assert verdict.message == f"Fails: A claim.\n{got}\n  hint      {better}"
    failure = SubmissionFailed(Status.CRASHED, "IndexError: 3")
    asked = claim("A claim.", hint="count again")
    crashed = Verdict(asked, Status.CRASHED, failure=failure, hint=better)
    got = "  got       IndexError: 3"
    assert crashed.message == f"Crashed in this check: A claim.\n{got}\n  hint      {better}"


@pytest.mark.parametrize("status", Status)
def test_only_a_claim_that_holds_stands_alone(status: Status) -> None:
    headed = head_check(status, "It holds.")
    assert (headed == "It holds.") is (status is Status.PASSED)
    assert headed.endswith("It holds.") and head_check(status, "") == ""
