"""What no time was left for, and what was not judged, wherever it is shown: nobody's fault."""

import pytest

from headcheck.grader.course import dashboard
from headcheck.grader.course.export import github as github_export
from headcheck.grader.course.export import gradescope, junit, plain, prairielearn
from headcheck.grader.course.export.gradebook import Gradebook
from headcheck.grader.report.feedback import Feedback, FeedbackLevel, redact_submission
from headcheck.grader.report.records import BUSY_KIND, NOT_JUDGED, ErrorRecord, PropertyRecord
from headcheck.grader.report.render import html, text
from headcheck.grader.report.render.outcome import describe_outcome, find_first_failure
from headcheck.grader.report.render.overview import ClassResult, make_overview
from headcheck.grader.report.render.view import combine_statuses, make_view
from tests.grader.course.gradebooks import make_standing
from tests.grader.report.records import (
    EQUATION,
    FUTURE,
    SHAPE,
    make_crashed,
    make_property,
    make_report,
    make_submission,
)

WHY = "its calls take too long on inputs this large"
SAID = f"1 check was not tried for lack of time, which earns no points: {WHY}"
LATE = PropertyRecord(
    EQUATION, EQUATION, "values", "not_asked", 0.0, 2.0,
    f"Not tried for lack of time, which earns no points: {WHY}",
)  # fmt: skip
SLOW = make_submission(make_property(SHAPE, "contract"), LATE, status="not_asked")
NO_VERDICT = ErrorRecord(BUSY_KIND, "not judged: busy")
BUSY = make_submission(status=NOT_JUDGED, max_score=4.0, error=NO_VERDICT)


@pytest.mark.parametrize(
    ("statuses", "shown"),
    [
        (("passed", "not_asked"), "not asked"),
        (("not_asked", "not_tried"), "not tried"),
        (("not_asked", "failed", "crashed"), "failed"),
        (("passed", "passed"), "passed"),
    ],
)
def test_a_group_has_failed_only_if_a_check_has(statuses: tuple[str, ...], shown: str) -> None:
    assert combine_statuses(statuses) == shown


def test_it_is_no_failure_and_the_reason_is_said() -> None:
    view = make_view(SLOW)
    assert view.failures == () and view.summary == view.short_summary == (SAID,)
    assert view.groups[1].unasked == (EQUATION,) and view.groups[1].untried == ()
    assert find_first_failure(SLOW) is None and describe_outcome(SLOW) == (SAID,)
    assert SAID in " ".join(text.render(make_report(SLOW)).split())
    page = html.render_page(SLOW, make_report(SLOW))
    assert "Not tried for lack of time, which earns no points" in page
    assert '<span aria-hidden="true">…</span> not asked' in page


@pytest.mark.parametrize("level", [FeedbackLevel.MESSAGE, FeedbackLevel.CASE])
def test_a_student_is_told_why_at_every_level_with_messages(level: FeedbackLevel) -> None:
    told = redact_submission(SLOW, Feedback(level))
    assert told.status == "not_asked" and describe_outcome(told) == (SAID,)


def test_exports_say_that_it_was_not_asked() -> None:
    result = make_standing("ada", SLOW)
    assert github_export.make_result([result])["status"] == "fail"
    assert [t["status"] for t in gradescope.make_results([result])["tests"]] == ["passed", "failed"]
    [row] = plain.make_table(Gradebook("week 1", (result,)))[1]
    assert (row["status"], row["not_asked"]) == ("not_asked", 1)
    [suite] = junit.render(Gradebook("week 1", (result,))).files.values()
    assert b'failures="0" errors="0" skipped="1"' in suite
    assert dashboard.rank_properties([result]) == []


def test_what_is_not_judged_is_called_so() -> None:
    results = [ClassResult(each, "Ada", "", 0.0, 4.0) for each in (BUSY, SLOW)]
    [row, other] = make_overview(results).matrix.rows
    assert {cell.status for cell in row.cells if cell} == {"not judged"}
    assert [cell.status for cell in other.cells if cell] == ["passed", "not asked"]
    page = html.render_page(BUSY, make_report(BUSY))
    assert '<span aria-hidden="true">?</span> not judged' in page


def test_checks_that_end_otherwise_are_not_said_to_fail() -> None:
    late = make_crashed(EQUATION, status="timed_out")
    spoilt = PropertyRecord(FUTURE, FUTURE, "values", "passed", 0.0, 2.0)
    shown = make_view(make_submission(make_property(SHAPE, "contract"), spoilt, late)).summary
    told = "1 passing check gives no points, because the main check of values does not pass."
    assert shown == (told,)
    [failure] = make_view(make_submission(late)).failures
    assert failure.heading == f"Took too long in this check: {EQUATION}"


def test_every_export_says_what_fails() -> None:
    record = make_submission(make_property(SHAPE), make_crashed(EQUATION))
    crashed = make_standing("ada", record)
    heading = f"Crashed in this check: {EQUATION}"
    named = [
        [each["name"] for each in github_export.make_result([crashed])["tests"]],
        [each["name"] for each in gradescope.make_results([crashed])["tests"]],
        [each["description"] for each in prairielearn.make_results([crashed])["tests"]],
    ]
    assert named == [[SHAPE, heading]] * 3
