"""What is said of a report, and how a terminal shows it."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from headcheck.exercises import ALL
from headcheck.grader.report.records import DiagnosisRecord, LineRecord, NoteRecord, PlaceRecord
from headcheck.grader.report.render import html, text
from headcheck.grader.report.render.view import MAX_NOTES, format_points, make_view, tally_statuses
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.grader.report.records import (
    CASE,
    EQUATION,
    FUTURE,
    RIGHT,
    SHAPE,
    WRONG,
    Outline,
    make_crashed,
    make_failed,
    make_property,
    make_report,
    make_submission,
    make_unjudged,
    make_untried,
)

# ------------------------------------------------------------------ what is said


@pytest.mark.parametrize(
    ("score", "most", "shown"),
    [
        (17.5, 20, "17.5 / 20"),
        (20.0, 20.0, "20 / 20"),
        (10 / 3, 10, "3.33 / 10"),
        (0.1 + 0.2, 0.3, "0.3 / 0.3"),
        (-0.0, 100, "0 / 100"),
        (19.999, 20, "19.99 / 20"),
        (19.99999, 20, "19.99 / 20"),
        (19.9999999, 20, "20 / 20"),
        (0, 0, "–"),
    ],
)
def test_a_score_is_as_short_as_it_can_be_and_never_full_by_rounding(
    score: float, most: float, shown: str
) -> None:
    assert format_points(score, most) == shown


def test_the_tally_says_first_how_many_passed() -> None:
    statuses = ["failed", "timed_out", "failed", "passed"]
    assert tally_statuses(statuses) == "4 results: 1 passed, 2 failed, 1 timed out"
    assert tally_statuses([]) == "0 results"


def test_properties_are_counted_by_group_in_order() -> None:
    groups = make_view(WRONG).groups
    assert [(g.name, g.score, len(g.passed), g.total, g.status) for g in groups] == [
        ("contract", "2 / 2", 1, 1, "passed"),
        ("values", "2 / 4", 1, 2, "failed"),
        ("mask", "0 / 2", 0, 1, "failed"),
        ("weights", "0 / 4", 0, 2, "not tried"),
    ]


def test_properties_with_the_same_outcome_are_shown_once() -> None:
    masks = make_crashed(FUTURE, "mask", seed=9), make_crashed(EQUATION, "mask", seed=4)
    quick = make_crashed("It is quick.", status="timed_out")
    shown = make_view(make_submission(make_crashed(SHAPE), *masks, quick))
    assert [(t.claim, t.alike) for t in shown.failures] == [(SHAPE, 2), ("It is quick.", 0)]
    (same,) = shown.groups[1].alike
    assert same.why == SHAPE and same.claims == (FUTURE, EQUATION)


def test_similar_failed_properties_are_each_shown() -> None:
    shown = make_view(make_submission(make_failed(SHAPE), make_failed(FUTURE)))
    assert [failure.alike for failure in shown.failures] == [0, 0]


def test_untried_properties_name_the_failed_prerequisite() -> None:
    untried = make_untried(FUTURE, SHAPE), make_untried(EQUATION, FUTURE)
    [said] = make_view(make_submission(make_failed(SHAPE), *untried)).summary
    assert said == f"2 checks were not tried, because this check did not pass: {SHAPE}"


BECAUSE = f"because this check did not pass: {FUTURE}"


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "1 check was not tried."),
        ("out of time", "1 check was not tried: out of time"),
        (BECAUSE, BECAUSE),
    ],
)
def test_any_reason_for_not_trying_can_be_shown(message: str, said: str) -> None:
    untried = make_property(FUTURE, status="not_tried", message=message)
    (sentence,) = make_view(make_submission(untried)).summary
    assert sentence.endswith(said)


def test_verdict_messages_are_parsed() -> None:
    first, other = ALL[0].properties[:2]
    failure = SubmissionFailed(Status.CRASHED, "ValueError: no", 7, 3)
    crashed = Verdict(first, Status.CRASHED, failure=failure)
    records = [
        make_property(v.property.claim, status=v.status, message=v.message)
        for v in (crashed, Verdict(other, Status.NOT_TRIED, blocked_by=first))
    ]
    shown = make_view(make_submission(*records))
    assert "(cell 7, line 3)" in shown.failures[0].details
    assert first.claim not in shown.failures[0].details
    told = f"1 check was not tried, because this check did not pass: {first.claim}"
    assert shown.summary == (told,)


def test_passed_properties_without_points_are_explained() -> None:
    kept = replace(make_property(SHAPE), points=0.0)
    first, *_ = make_view(make_submission(kept, make_failed(EQUATION))).summary
    assert first.startswith("1 check passes, but gives no points yet")


def test_case_is_shown_once() -> None:
    assert make_view(make_submission(make_failed(SHAPE))).failures[0].case == ""
    bare = replace(make_failed(SHAPE), message="")
    assert make_view(make_submission(bare)).failures[0].case == CASE


def test_number_of_notes_is_limited() -> None:
    notes = tuple(NoteRecord("prints", f"note {i}") for i in range(MAX_NOTES + 5))
    shown = make_view(make_submission(notes=notes)).notes
    assert len(shown) == MAX_NOTES + 1 and shown[-1].message == "and 5 more notes"


# ---------------------------------------------------------------------------- text


def test_full_marks_are_short() -> None:
    head = "ada.py  causal_attention (CausalAttention)  6 / 6  passed"
    assert text.render(make_report(RIGHT)) == f"{head}\n  All 3 checks pass.\n"


def test_failed_submission_is_reported_in_order_and_once() -> None:
    shown = text.render(make_report(WRONG))
    assert (
        shown
        == f"""\
class/alan.py  causal_attention (CausalAttention)  4 / 12  failed

  contract  2 / 2  1 of 1 check
  values    2 / 4  1 of 2 checks
  mask      0 / 2  0 of 1 check
  weights   0 / 4  0 of 2 checks

  Fails: {EQUATION}
    expected  0.5 ± 1e-06 at output[0, 0]
    got       1.5
    on        {CASE}
    hint      √d_k?

  Fails: {FUTURE}
    expected  0.5 ± 1e-06 at output[0, 0]
    got       1.5
    on        {CASE}
    hint      √d_k?

  2 checks were not tried, because this check did not pass: {EQUATION}

  note  `forward` calls print 6 times (cell 3, line 26)
"""
    )


NO_SCALE = DiagnosisRecord("no_scale", "The scores are not scaled.", 3, 12, 7, 7)
NO_MASK = DiagnosisRecord("no_mask", "Nothing is hidden.", None, None, 7, 7)


@pytest.mark.parametrize(
    ("found", "lines"),
    [
        (
            (NO_SCALE,),
            "  One mistake was found; it explains the answers to all 7 inputs tried:\n"
            "    The scores are not scaled. (look at cell 3, line 12)\n\n",
        ),
        (
            (replace(NO_SCALE, cases_matched=5),),
            "  One mistake was found; it explains the answers to 5 of 7 inputs tried:\n"
            "    The scores are not scaled. (look at cell 3, line 12)\n\n",
        ),
        (
            (NO_SCALE, NO_MASK),
            "  Two mistakes were found; they explain the answers to all 7 inputs tried:\n"
            "    The scores are not scaled. (look at cell 3, line 12)\n    Nothing is hidden.\n\n",
        ),
    ],
)
def test_problems_are_shown_right_after_the_score(
    found: tuple[DiagnosisRecord, ...], lines: str
) -> None:
    headline, _, rest = text.render(make_report(replace(WRONG, diagnosis=found))).partition("\n\n")
    assert headline == text.render(make_report(WRONG)).partition("\n\n")[0]
    assert rest.startswith(lines)


def test_page_shows_problems_before_the_properties() -> None:
    record = replace(WRONG, diagnosis=(NO_SCALE, NO_MASK))
    words = Outline(html.render_page(record, make_report(WRONG))).words
    assert words.index("Two mistakes were found") < words.index("(look at cell 3, line 12)")
    assert words.index("Nothing is hidden.") < words.index(EQUATION)


def test_crashes_of_one_kind_are_counted() -> None:
    record = make_submission(make_crashed(SHAPE), *map(make_crashed, "abcdefghijk"))
    shown = text.render(make_report(record))
    assert shown.count("ValueError") == 1
    assert "    11 more checks ended the same way\n" in shown


def test_an_error_says_where() -> None:
    error = "  error line 3: '(' was never closed (cell 4, line 3)\n"
    shown = text.render(make_report(make_unjudged()))
    assert shown == f"b.ipynb  no exercise  –  not tried\n{error}"


def test_several_submissions_end_in_a_table() -> None:
    long = "a" * 60 + "/漢字.py"
    shown = text.render(make_report(RIGHT, WRONG, make_unjudged(file=long)))
    *_, head, first, second, third, _, counts = shown.splitlines()
    assert head.split() == ["file", "exercise", "score", "status"]
    assert first.split("  ")[0] == "ada.py" and first.endswith("6 / 6   passed")
    assert second.endswith("4 / 12  failed")
    assert third.startswith("…aaa") and "/漢字.py  no exercise " in third
    assert counts == "3 results: 1 passed, 1 failed, 1 not tried"
    assert head.index("exercise") == first.index("causal")


def test_the_table_alone_says_why_files_are_not_graded() -> None:
    shown = [line.text for line in text.iter_grades(make_report(RIGHT, make_unjudged()))]
    why = "  b.ipynb: line 3: '(' was never closed (cell 4, line 3)"
    assert shown[-2:] == ["Not graded:", why]
    graded = text.iter_grades(make_report(RIGHT, WRONG))
    assert "Not graded:" not in text.join_lines(graded)


def test_empty_report_says_so() -> None:
    assert text.render(make_report()) == "Nothing was graded.\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_console_shows_the_same(terminal: bool) -> None:
    out = io.StringIO()
    several = make_report(WRONG, RIGHT, make_unjudged("[red]not markup[/] :smile:"))
    console = Console(file=out, width=30, force_terminal=terminal)
    text.print_lines(console, text.iter_lines(several, ""))
    assert re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()) == text.render(several)
    assert ("\x1b" in out.getvalue()) == terminal


# ------------------------------------------------------------------ a place

UP_TO = "The scores are right up to line 3; line 4 does not give the right weights."
ROWS = ("0.25", "0.75"), ("0.5", "0.5")
PLACE = PlaceRecord(UP_TO, (LineRecord(None, 4),), CASE, "token 0 of head 1", *ROWS)


def test_a_place_is_told_with_its_row_of_numbers_in_text_and_on_pages() -> None:
    report = make_report(replace(WRONG, place=PLACE))
    said = " ".join(text.render(report).split())
    assert PLACE.sentence in said
    assert "token 0 of head 1, right: 0.25 0.75" in said
    assert "token 0 of head 1, yours: 0.5 0.5" in said
    page = html.render_fragment(report.submissions[0])
    assert PLACE.sentence in page and "yours: 0.5  0.5" in page


def test_a_place_is_sanitised() -> None:
    hostile = replace(PLACE, of="\x1b[31mtoken", right=("<blink>",), got=("\u202e",))
    report = make_report(replace(WRONG, place=hostile))
    assert "\x1b" not in text.render(report) and "\u202e" not in text.render(report)
    assert "<blink>" not in html.render_fragment(report.submissions[0])
