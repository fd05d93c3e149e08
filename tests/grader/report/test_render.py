"""What is said of a report, and how a terminal shows it."""

import io
import re
from dataclasses import replace

import pytest
from rich.console import Console

from exercises import ALL
from grader.report.records import DiagnosisRecord, NoteRecord
from grader.report.render import html, text
from grader.report.render.view import NOTES, points, tally, view
from properties.property import Verdict
from properties.violation import Status, SubmissionFailed
from tests.grader.report.records import (
    CASE,
    EQUATION,
    FUTURE,
    RIGHT,
    SHAPE,
    WRONG,
    Outline,
    claim,
    crashed,
    failed,
    report,
    submission,
    unjudged,
    untried,
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
        (19.999, 20, "19.999 / 20"),
        (19.99999, 20, "19.99999 / 20"),
        (0, 0, "–"),
    ],
)
def test_a_score_is_as_short_as_it_can_be_and_never_full_by_rounding(
    score: float, most: float, shown: str
) -> None:
    assert points(score, most) == shown


def test_the_tally_says_first_how_many_passed() -> None:
    statuses = ["failed", "timed_out", "failed", "passed"]
    assert tally(statuses) == "4 submissions: 1 passed, 2 failed, 1 timed out"
    assert tally([]) == "0 submissions"


def test_claims_are_counted_by_group_in_order() -> None:
    groups = view(WRONG).groups
    assert [(g.name, g.score, len(g.passed), g.total, g.status) for g in groups] == [
        ("contract", "2 / 2", 1, 1, "passed"),
        ("values", "2 / 4", 1, 2, "failed"),
        ("mask", "0 / 2", 0, 1, "failed"),
        ("weights", "0 / 4", 0, 2, "not tried"),
    ]


def test_claims_that_ended_the_same_way_are_said_once() -> None:
    claims = [crashed(SHAPE), crashed(FUTURE, "mask", seed=9), crashed(EQUATION, "mask", seed=4)]
    shown = view(submission(*claims, crashed("It is quick.", status="timed_out")))
    assert [(t.claim, t.alike) for t in shown.troubles] == [(SHAPE, 2), ("It is quick.", 0)]
    (same,) = shown.groups[1].alike
    assert same.why == SHAPE and same.claims == (FUTURE, EQUATION)


def test_claims_that_do_not_hold_are_each_said_however_alike() -> None:
    assert [t.alike for t in view(submission(failed(SHAPE), failed(FUTURE))).troubles] == [0, 0]


def test_claims_not_tried_name_the_claim_that_did_not_hold() -> None:
    chain = submission(failed(SHAPE), untried(FUTURE, SHAPE), untried(EQUATION, FUTURE))
    assert view(chain).summary == (f"2 claims were not tried, because this did not hold: {SHAPE}",)


@pytest.mark.parametrize(
    ("message", "said"),
    [
        ("", "1 claim was not tried."),
        ("out of time", "1 claim was not tried: out of time"),
        (f"because this did not hold: {FUTURE}", "because this did not hold: " + FUTURE),
    ],
)
def test_any_reason_for_not_trying_can_be_told(message: str, said: str) -> None:
    (sentence,) = view(submission(claim(FUTURE, status="not_tried", message=message))).summary
    assert sentence.endswith(said)


def test_the_examiner_s_own_messages_are_understood() -> None:
    first, other = ALL[0].properties[:2]
    failure = SubmissionFailed(Status.CRASHED, "ValueError: no", 7, 3)
    verdicts = [
        Verdict(first, Status.CRASHED, failure=failure),
        Verdict(other, Status.NOT_TRIED, because=first),
    ]
    records = [claim(v.property.claim, status=v.status, message=v.message) for v in verdicts]
    shown = view(submission(*records))
    assert "(cell 7, line 3)" in shown.troubles[0].details
    assert first.claim not in shown.troubles[0].details
    assert shown.summary == (f"1 claim was not tried, because this did not hold: {first.claim}",)


def test_claims_that_hold_without_points_are_explained() -> None:
    kept = replace(claim(SHAPE), points=0.0)
    first, *_ = view(submission(kept, failed(EQUATION))).summary
    assert first.startswith("1 claim holds, but gives no points yet")


def test_a_case_is_said_once() -> None:
    assert view(submission(failed(SHAPE))).troubles[0].case == ""
    bare = replace(failed(SHAPE), message="")
    assert view(submission(bare)).troubles[0].case == CASE


def test_of_very_many_notes_some_are_shown() -> None:
    notes = tuple(NoteRecord("prints", f"note {i}") for i in range(NOTES + 5))
    shown = view(submission(notes=notes)).notes
    assert len(shown) == NOTES + 1 and shown[-1].message == "and 5 more notes"


# ---------------------------------------------------------------------------- text


def test_full_marks_are_short() -> None:
    assert text.render(report(RIGHT)) == (
        "ada.py  causal_attention (CausalAttention)  6 / 6  passed\n  All 3 claims hold.\n"
    )


def test_a_failed_submission_is_told_in_order_and_once() -> None:
    shown = text.render(report(WRONG))
    assert (
        shown
        == f"""\
class/alan.py  causal_attention (CausalAttention)  4 / 12  failed

  contract  2 / 2  1 of 1 claims
  values    2 / 4  1 of 2 claims
  mask      0 / 2  0 of 1 claims
  weights   0 / 4  0 of 2 claims

  {EQUATION}
    expected  0.5 ± 1e-06 at output[0, 0]
    got       1.5
    on        {CASE}
    hint      √d_k?

  {FUTURE}
    expected  0.5 ± 1e-06 at output[0, 0]
    got       1.5
    on        {CASE}
    hint      √d_k?

  2 claims were not tried, because this did not hold: {EQUATION}

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
            "    The scores are not scaled. (cell 3, line 12)\n\n",
        ),
        (
            (replace(NO_SCALE, cases_matched=5),),
            "  One mistake was found; it explains the answers to 5 of 7 inputs tried:\n"
            "    The scores are not scaled. (cell 3, line 12)\n\n",
        ),
        (
            (NO_SCALE, NO_MASK),
            "  Two mistakes were found; they explain the answers to all 7 inputs tried:\n"
            "    The scores are not scaled. (cell 3, line 12)\n    Nothing is hidden.\n\n",
        ),
    ],
)
def test_what_is_wrong_is_said_right_after_the_score(
    found: tuple[DiagnosisRecord, ...], lines: str
) -> None:
    headline, _, rest = text.render(report(replace(WRONG, diagnosis=found))).partition("\n\n")
    assert headline == text.render(report(WRONG)).partition("\n\n")[0]
    assert rest.startswith(lines)


def test_a_page_says_what_is_wrong_before_the_claims() -> None:
    words = Outline(html.page(replace(WRONG, diagnosis=(NO_SCALE, NO_MASK)), report(WRONG))).words
    assert words.index("Two mistakes were found") < words.index("(cell 3, line 12)")
    assert words.index("Nothing is hidden.") < words.index(EQUATION)


def test_crashes_of_one_kind_are_counted() -> None:
    shown = text.render(report(submission(crashed(SHAPE), *map(crashed, "abcdefghijk"))))
    assert shown.count("ValueError") == 1
    assert "    11 more claims ended the same way\n" in shown


def test_an_error_says_where() -> None:
    assert text.render(report(unjudged())) == (
        "b.ipynb  no exercise  –  not tried\n"
        "  error line 3: '(' was never closed (cell 4, line 3)\n"
    )


def test_several_submissions_end_in_a_table() -> None:
    long = "a" * 60 + "/漢字.py"
    shown = text.render(report(RIGHT, WRONG, unjudged(file=long)))
    *_, head, first, second, third, _, counts = shown.splitlines()
    assert head.split() == ["file", "exercise", "score", "status"]
    assert first.split("  ")[0] == "ada.py" and first.endswith("6 / 6   passed")
    assert second.endswith("4 / 12  failed")
    assert third.startswith("…aaa") and "/漢字.py  no exercise " in third
    assert counts == "3 submissions: 1 passed, 1 failed, 1 not tried"
    assert head.index("exercise") == first.index("causal")


def test_nothing_graded_is_said() -> None:
    assert text.render(report()) == "Nothing was graded.\n"


@pytest.mark.parametrize("terminal", [True, False])
def test_a_console_shows_the_same(terminal: bool) -> None:
    out = io.StringIO()
    several = report(WRONG, RIGHT, unjudged("[red]not markup[/] :smile:"))
    text.print_to(Console(file=out, width=30, force_terminal=terminal), several)
    assert re.sub(r"\x1b\[[\d;]*m", "", out.getvalue()) == text.render(several)
    assert ("\x1b" in out.getvalue()) == terminal
