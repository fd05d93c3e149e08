"""What is said of a class together: scores, shared mistakes, reasons of no answer, a matrix."""

from dataclasses import replace

import pytest

from headcheck.grader.report.feedback import Feedback, FeedbackLevel, redact_submission
from headcheck.grader.report.records import (
    NOT_JUDGED,
    Counterexample,
    DiagnosisRecord,
    ErrorRecord,
    PropertyRecord,
    SubmissionRecord,
)
from headcheck.grader.report.render import overview
from headcheck.grader.report.render.outcome import describe_outcome, name_ending
from headcheck.grader.report.render.overview import ClassResult, MatrixCell
from headcheck.properties.violations.violation import Status

BECAUSE = "A matrix product lacks a transpose"
NO_SCALE = DiagnosisRecord("no_scale", "Not scaled.", None, 7, 9, 9)
NO_MASK = DiagnosisRecord("no_mask", "Nothing is hidden.", None, 8, 9, 9)


def claim(name: str, status: str, group: str = "values", **more: object) -> PropertyRecord:
    text = f"It {name}."
    made = PropertyRecord(name, text, group, status, 0.0, 1.0)
    if status == Status.FAILED:
        message = f"{text}\n  expected  1 at output[0]\n  got       2\n  on        tokens=3"
        made = replace(made, message=message, words=f"{text}\n  got       another number")
    if status == Status.CRASHED:
        made = replace(
            made,
            message=f"{text}\n  got       ValueError: bad (line 4)\n  because   {BECAUSE}: `q`.",
            words=f"{text}\n  got       ValueError was raised (line 4)\n  because   {BECAUSE}.",
        )
    if status == Status.TIMED_OUT:
        message = f"{text}\n  got       took more than 3 s"
        made = replace(made, message=message, words=f"{text}\n  got       it took too long")
    return replace(made, **more)  # type: ignore[arg-type]


def record(*claims: PropertyRecord, **more: object) -> SubmissionRecord:
    status = next((p.status for p in claims if p.status != Status.PASSED), "passed")
    made = SubmissionRecord("a.py", "a", "x", "X", 0.0, 4.0, status, 0.1, claims)
    return replace(made, **more)  # type: ignore[arg-type]


def entry(label: str, made: SubmissionRecord, score: float = 0.0) -> ClassResult:
    return ClassResult(made, label, f"{label}.html", score, 4.0)


CRASHED = record(claim("runs", "crashed", "contract"), claim("is_right", "not_tried"))
SLOW = record(claim("runs", "timed_out", "contract"), claim("is_right", "not_tried"))
UNREAD = record(status="not_tried", error=ErrorRecord("syntax", "never closed", 2, 3))
WRONG = record(claim("runs", "passed", "contract"), claim("is_right", "failed"))
RIGHT = record(claim("runs", "passed", "contract"), claim("is_right", "passed"))


@pytest.mark.parametrize(
    ("made", "sentences"),
    [
        (RIGHT, ()),
        (CRASHED, (f"It crashed: ValueError: bad (line 4). {BECAUSE}: `q`.",)),
        (SLOW, ("It timed out: took more than 3 s",)),
        (UNREAD, ("never closed (cell 2, line 3)",)),
        (WRONG, ("Fails: It is_right. Expected: 1 at output[0]. Got: 2.",)),
        (replace(WRONG, diagnosis=(NO_SCALE, NO_MASK)), ("Not scaled.", "Nothing is hidden.")),
        (record(claim("runs", "out_of_memory")), ("It ran out of memory.",)),
        (record(claim("runs", "not_tried", message="Not supported.")),
         ("1 check was not tried: Not supported.",)),
    ],
)  # fmt: skip
def test_outcome_says_what_happened(made: SubmissionRecord, sentences: tuple[str, ...]) -> None:
    assert describe_outcome(made) == sentences


@pytest.mark.parametrize(
    ("made", "level", "sentence"),
    [
        (CRASHED, "message", f"It crashed: ValueError was raised (line 4). {BECAUSE}."),
        (CRASHED, "name", "It crashed."),
        (SLOW, "message", "It timed out."),
        (SLOW, "name", "It timed out."),
        (WRONG, "message", "Fails: It is_right. Got: another number."),
        (WRONG, "name", "Fails: It is_right."),
    ],
)
def test_outcome_tells_no_more_than_the_feedback_level(
    made: SubmissionRecord, level: str, sentence: str
) -> None:
    told = redact_submission(made, Feedback(FeedbackLevel(level)))
    assert describe_outcome(told) == (sentence,)


def test_outcome_of_a_hostile_message_is_sanitised() -> None:
    evil = claim("runs", "crashed", message="It runs.\n  got       \x1b[2J\u202e::error::")
    [told] = describe_outcome(record(evil))
    assert told == "It crashed: \\x1b[2J\\u202e::error::"


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (CRASHED, f"It crashed: {BECAUSE}."),
        (record(claim("runs", "crashed", words="R.\n  got       KeyError was raised (line 4)")),
         "It crashed: KeyError was raised"),
        (record(claim("runs", "crashed", words="")), "It crashed."),
        (SLOW, "It timed out."),
        (UNREAD, "never closed"),
        (WRONG, ""),
        (RIGHT, ""),
        (replace(CRASHED, diagnosis=(NO_SCALE,)), ""),
    ],
)  # fmt: skip
def test_no_answer_has_a_reason_that_others_can_share(made: SubmissionRecord, reason: str) -> None:
    assert name_ending(made) == reason


def test_those_without_an_answer_are_grouped_by_reason() -> None:
    elsewhere = replace(CRASHED, properties=(replace(CRASHED.properties[0], message="", line=9),))
    given = [("Zoë", CRASHED), ("Émile", elsewhere), ("Bob", SLOW), ("Cyd", WRONG), ("Dan", UNREAD)]
    groups = overview.group_endings([entry(label, made) for label, made in given])
    assert [(each.reason, [m.label for m in each.members]) for each in groups] == [
        (f"It crashed: {BECAUSE}.", ["Émile", "Zoë"]),
        ("It timed out.", ["Bob"]),
        ("never closed", ["Dan"]),
    ]
    assert groups[0].members[1].details == f"It crashed: ValueError: bad (line 4). {BECAUSE}: `q`."
    assert [m.details for m in groups[2].members] == ["never closed (cell 2, line 3)"]


def test_two_mistakes_count_in_both_groups() -> None:
    both = replace(WRONG, diagnosis=(NO_SCALE, NO_MASK))
    one = replace(WRONG, diagnosis=(NO_SCALE,))
    given = [("Bob", both), ("Ada", one), ("Cyd", WRONG), ("Eve", CRASHED), ("Fay", RIGHT)]
    groups = overview.group_mistakes([entry(label, made) for label, made in given])
    assert [(g.sentence, g.named, [m.label for m in g.members]) for g in groups] == [
        ("Not scaled.", True, ["Ada", "Bob"]),
        (f"{overview.UNNAMED_PREFIX}It is_right.", False, ["Cyd"]),
        ("Nothing is hidden.", True, ["Bob"]),
    ]


def test_mistake_has_the_smallest_example() -> None:
    long, short = (Counterexample({}, "print(1)" * n) for n in (9, 1))
    given = [
        replace(WRONG, diagnosis=(NO_SCALE,), properties=(claim(name, "failed", counterexample=c),))
        for name, c in (("a", long), ("b", short), ("c", None))
    ]
    [group] = overview.group_mistakes([entry("x", made) for made in given])
    assert group.code == "print(1)" and group.message.startswith("It b.")


def test_scores_are_counted_and_full_ones_apart() -> None:
    entries = [entry("x", RIGHT, score) for score in (0.0, 0.1, 2.0, 3.99, 4.0)]
    found = overview.compute_histogram([*entries, ClassResult(UNREAD, "y", "", 0.0, 0.0)])
    bins = found.bins
    assert {each.label: each.count for each in bins if each.count} == {
        "0–10 %": 2, "50–60 %": 1, "90–100 %": 1, "all points": 1,
    }  # fmt: skip
    assert max(each.share for each in bins) == 1.0
    assert [each.text for each in found.quartiles] == ["2 %", "50 %", "100 %"]
    places = [each.place for each in found.quartiles]
    assert places == sorted(places) and places[1] == pytest.approx(5 / 11) and places[2] < 10 / 11
    nothing = overview.compute_histogram([])
    assert [each.share for each in nothing.bins] == [0.0] * 11 and not nothing.quartiles


def test_full_points_lie_in_the_last_bin_and_one_result_is_all_quartiles() -> None:
    [lower, median, upper] = overview.compute_histogram([entry("x", RIGHT, 4.0)]).quartiles
    assert lower == median == upper and median.text == "100 %"
    assert 10 / 11 < median.place < 1


def test_mistakes_of_one_answer_alone_are_apart_if_there_are_several() -> None:
    scale, mask = (replace(WRONG, diagnosis=(each,)) for each in (NO_SCALE, NO_MASK))
    given = [("Ada", scale), ("Bob", scale), ("Cyd", mask)]
    two = overview.make_overview([entry(label, made) for label, made in given])
    assert [len(each.members) for each in two.shared] == [2, 1] and not two.alone
    more = overview.make_overview([entry(label, made) for label, made in [*given, ("Eve", WRONG)]])
    assert [each.sentence for each in more.shared] == ["Not scaled."]
    assert {each.members[0].label for each in more.alone} == {"Cyd", "Eve"}


def test_matrix_has_names_of_students_and_of_groups() -> None:
    other = record(claim("is_masked", "passed", "mask"))
    given = [("Zoë", CRASHED), ("Ada", WRONG), ("Bob", UNREAD), ("Cyd", other)]
    matrix = overview.make_matrix([entry(label, made) for label, made in given])
    assert matrix.groups == ("contract", "values", "mask")
    assert [row.member.label for row in matrix.rows] == ["Zoë", "Ada", "Bob", "Cyd"]
    crashed, untried = MatrixCell("crashed", "0/1"), MatrixCell("not tried", "0/1")
    passed, failed = MatrixCell("passed", "1/1"), MatrixCell("failed", "0/1")
    unread = (MatrixCell("not tried", "0/0"),) * 3
    assert [row.cells for row in matrix.rows] == [
        (crashed, untried, None), (passed, failed, None), unread, (None, None, passed),
    ]  # fmt: skip


def test_what_was_not_judged_is_no_score_of_zero() -> None:
    waiting = replace(RIGHT, status=NOT_JUDGED)
    entries = [entry("x", RIGHT, 4.0), entry("y", waiting, 0.0)]
    assert sum(each.count for each in overview.compute_histogram(entries).bins) == 1
    by_hand = [entry("x", RIGHT, 4.0), entry("y", waiting, 3.0)]
    assert sum(each.count for each in overview.compute_histogram(by_hand).bins) == 2
