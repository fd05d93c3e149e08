"""A report tells what its level names and nothing else, in every format."""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace

import pytest

from headcheck.grader.report.feedback import (
    FULL_FEEDBACK,
    STATIC_NOTE_KINDS,
    WITHHELD_REASON,
    BadFeedback,
    Feedback,
    FeedbackLevel,
    bind_feedback,
    parse_level,
    redact_report,
    redact_submission,
    tells_more,
)
from headcheck.grader.report.records import (
    Counterexample,
    DiagnosisRecord,
    ErrorRecord,
    EvidenceRecord,
    Excerpt,
    LineRecord,
    NoteRecord,
    PlaceRecord,
    PropertyRecord,
    SeedRecord,
    SubmissionRecord,
    build_report,
    to_json,
)
from headcheck.grader.report.render import text
from headcheck.grader.report.render.circumstances import SEED_PHRASES
from headcheck.grader.seed import Seed, draw_secret_seed, make_seed
from headcheck.properties import families
from headcheck.properties.property import Verdict
from headcheck.properties.violations.violation import (
    KIND_MESSAGES,
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
    head_check,
)
from tests.grader.report.records import render_pages

LESS = [level for level in FeedbackLevel if level is not FeedbackLevel.FULL]
FIRST, SECOND = families.ALL[:2]


# ------------------------------------------------------------------- fields and levels

CLAIM = PropertyRecord(
    "the_name", "The claim.", "values", "failed", 0.0, 2.0, "The claim.\n  expected  THE NUMBERS",
    "THE CASE", Counterexample({"seed": 726}, "THE CODE"), EvidenceRecord(),
    "The claim.\n  got       THE WORDS", 7, 3, printed="THE PRINTS",
)  # fmt: skip
HIDDEN = PropertyRecord(
    "hidden_name", "HIDDEN CLAIM", "HIDDEN GROUP", "timed_out", 0.0, 3.0, "HIDDEN MESSAGE",
    "HIDDEN CASE", Counterexample({"seed": 727}, "HIDDEN CODE"), None, "HIDDEN WORDS", 8, 9,
)  # fmt: skip
MISTAKE = DiagnosisRecord("no_scale", "THE MISTAKE", 3, 12, 7, 7)
WITHOUT_LINE = replace(MISTAKE, cell=None, line=None)
ALWAYS = {"name", "claim", "group", "status", "points", "max_points", "asked"}
TOLD = {
    FeedbackLevel.NAME: ALWAYS,
    FeedbackLevel.MESSAGE: ALWAYS | {"message", "words", "cell", "line"},
    FeedbackLevel.CASE: ALWAYS
    | {"message", "words", "cell", "line", "case", "counterexample", "printed"},
}


def record(*claims: PropertyRecord, **more: object) -> SubmissionRecord:
    troubles = [c.status for c in claims if c.status not in ("passed", "not_tried")]
    made = SubmissionRecord(
        "a.py", "a", "causal_attention", "A", 0.0, 5.0, (troubles or ["passed"])[0], 1.25, claims
    )
    return replace(made, **more)  # type: ignore[arg-type]


def passed(claim: PropertyRecord) -> PropertyRecord:
    return PropertyRecord(claim.name, claim.claim, claim.group, "passed", 2.0, 2.0)


def hiding(level: FeedbackLevel = FeedbackLevel.FULL) -> Feedback:
    return Feedback(level, hidden=frozenset({HIDDEN.name}))


@pytest.mark.parametrize("level", LESS)
def test_a_level_is_a_list_of_fields_and_every_other_is_empty(level: FeedbackLevel) -> None:
    [claim] = redact_submission(record(CLAIM), Feedback(level)).properties
    empty = PropertyRecord("", "", "", "", 0, 0)
    for field in dataclasses.fields(PropertyRecord):
        if field.name not in TOLD[level]:
            assert getattr(claim, field.name) == getattr(empty, field.name), field.name


def test_levels_show_increasing_detail() -> None:
    levels = (FeedbackLevel.NAME, FeedbackLevel.MESSAGE, FeedbackLevel.CASE, FeedbackLevel.FULL)
    found = [redact_submission(record(CLAIM), Feedback(level)) for level in levels]
    assert [each.seconds for each in found] == [2.0, 2.0, 1.25, 1.25], "they may tell the inputs"
    name, message, case, full = (each.properties[0] for each in found)
    assert (name.message, message.message) == ("", CLAIM.words)
    bare = Counterexample({"seed": 726})
    assert (case, full) == (replace(CLAIM, counterexample=bare, evidence=None), CLAIM)


@pytest.mark.parametrize("level", FeedbackLevel)
def test_prints_can_be_left_out(level: FeedbackLevel) -> None:
    silent = Feedback(level, prints=False)
    [told] = redact_submission(record(CLAIM), Feedback(level)).properties
    [claim] = redact_submission(record(CLAIM), silent).properties
    assert claim == replace(told, printed="")
    assert not bind_feedback(Feedback(level), silent).prints
    assert not bind_feedback(silent, FULL_FEEDBACK).prints


def test_everything_is_shown_by_default() -> None:
    report = build_report([record(CLAIM, HIDDEN)])
    assert redact_report(report, FULL_FEEDBACK) is report
    assert redact_report(report, None) is report


def test_record_of_an_older_report_shows_no_message() -> None:
    old = replace(CLAIM, words="")
    [told] = redact_submission(record(old), Feedback(FeedbackLevel.MESSAGE)).properties
    assert told.message == ""


def test_property_can_have_its_own_level() -> None:
    other = replace(CLAIM, name="other")
    feedback = Feedback(FeedbackLevel.NAME, {"other": FeedbackLevel.FULL})
    first, second = redact_submission(record(CLAIM, other), feedback).properties
    assert (first.message, second) == ("", other)


@pytest.mark.parametrize("level", FeedbackLevel)
def test_hidden_property_shows_only_its_existence(level: FeedbackLevel) -> None:
    why = f"Not tried, because this check did not pass: {HIDDEN.claim}"
    untried = replace(passed(CLAIM), status="not_tried", points=0.0, message=why)
    before = record(CLAIM, HIDDEN, untried, score=2.0)
    after = redact_submission(before, hiding(level))
    assert "hidden" not in to_json(build_report([after])).lower().replace('"hidden": 1', "")
    assert (after.hidden, after.score, after.max_score, after.seconds) == (1, 2.0, 5.0, 0.0)
    assert after.properties[1].message == ("" if level is FeedbackLevel.NAME else WITHHELD_REASON)


def test_reason_for_not_trying_is_shown_if_the_prerequisite_is() -> None:
    message = f"Not tried, because this check did not pass: {CLAIM.claim}"
    untried = replace(passed(HIDDEN), name="x", status="not_tried", message=message)
    after = redact_submission(record(CLAIM, untried), Feedback(FeedbackLevel.MESSAGE))
    assert after.properties[1].message == message


@pytest.mark.parametrize(
    ("claims", "status"),
    [
        ((passed(CLAIM),), "passed"),
        ((CLAIM, HIDDEN), "failed"),
        ((HIDDEN, replace(CLAIM, status="crashed")), "crashed"),
        ((HIDDEN, passed(CLAIM)), "failed"),  # it timed out, and that would tell of it
    ],
)
def test_status_is_that_of_the_first_shown_failure(
    claims: Sequence[PropertyRecord], status: str
) -> None:
    assert redact_submission(record(*claims), hiding()).status == status


@pytest.mark.parametrize(
    ("claims", "feedback", "found"),
    [
        ((CLAIM,), Feedback(FeedbackLevel.NAME), ()),
        ((CLAIM,), Feedback(FeedbackLevel.MESSAGE), (WITHOUT_LINE,)),
        ((CLAIM,), Feedback(FeedbackLevel.CASE), (MISTAKE,)),
        ((CLAIM,), Feedback(FeedbackLevel.NAME, {CLAIM.name: FeedbackLevel.CASE}), (MISTAKE,)),
        ((passed(CLAIM), HIDDEN), hiding(), ()),
        ((CLAIM, HIDDEN), hiding(FeedbackLevel.MESSAGE), (WITHOUT_LINE,)),
        ((CLAIM, HIDDEN), hiding(), (MISTAKE,)),
    ],
)
def test_mistake_is_named_if_a_property_it_explains_shows_its_message(
    claims: Sequence[PropertyRecord], feedback: Feedback, found: tuple[DiagnosisRecord, ...]
) -> None:
    after = redact_submission(record(*claims, diagnosis=(MISTAKE,)), feedback)
    assert after.diagnosis == found


@pytest.mark.parametrize(
    ("feedback", "count"),
    [
        (Feedback(FeedbackLevel.NAME), 1),
        (Feedback(FeedbackLevel.MESSAGE), 2),
        (hiding(FeedbackLevel.CASE), 1),
    ],
)
def test_dynamic_notes_are_hidden_with_their_properties(feedback: Feedback, count: int) -> None:
    notes = (NoteRecord("prints", "it prints", 1, 2), NoteRecord("float32", "only float32"))
    assert redact_submission(record(CLAIM, HIDDEN, notes=notes), feedback).notes == notes[:count]


LINES = Excerpt(None, 1, "a\nb\nc", (2, 3))


@pytest.mark.parametrize(
    ("feedback", "marked"),
    [
        (Feedback(FeedbackLevel.NAME), ()),
        (Feedback(FeedbackLevel.MESSAGE), ()),
        (Feedback(FeedbackLevel.CASE), (2, 3)),
        (hiding(FeedbackLevel.FULL), (2,)),
    ],
)
def test_marked_lines_are_those_shown_feedback_points_to(
    feedback: Feedback, marked: tuple[int, ...]
) -> None:
    told_, hidden = replace(CLAIM, cell=None, line=2), replace(HIDDEN, cell=None, line=3)
    after = redact_submission(record(told_, hidden, source=(LINES,)), feedback)
    assert after.source == ((replace(LINES, marked=marked),) if marked else ())


PLACE = PlaceRecord("The scores are right up to line 1.", (LineRecord(None, 2),), right=("1",))


@pytest.mark.parametrize("level", FeedbackLevel)
def test_a_place_is_shown_from_the_level_of_cases_on(level: FeedbackLevel) -> None:
    lines = replace(LINES, marked=(2,))
    after = redact_submission(record(CLAIM, place=PLACE, source=(lines,)), Feedback(level))
    shown = level.includes(FeedbackLevel.CASE)
    assert after.place == (PLACE if shown else None)
    assert [each.marked for each in after.source] == ([(2,)] if shown else [])


def test_a_place_is_not_shown_if_only_hidden_properties_fail() -> None:
    after = redact_submission(record(passed(CLAIM), HIDDEN, place=PLACE), hiding())
    assert after.place is None


def test_lines_of_ungradable_submissions_are_shown() -> None:
    error = ErrorRecord("syntax", "no", None, 2)
    unjudged = record(error=error, source=(LINES,))
    assert redact_submission(unjudged, Feedback(FeedbackLevel.NAME)).source == (LINES,)


def test_lines_marked_only_by_a_hidden_property_are_not_shown() -> None:
    hidden = replace(HIDDEN, cell=None, line=3)
    after = redact_submission(record(passed(CLAIM), hidden, source=(LINES,)), hiding())
    assert after.source == ()


def test_always_shown_notes_come_from_static_analysis() -> None:
    from headcheck.properties.families.dropout import EXTRA_DROPOUT
    from headcheck.properties.harness.case_context import FLOAT32_NOTE

    assert not {EXTRA_DROPOUT.kind, FLOAT32_NOTE.kind} & set(STATIC_NOTE_KINDS)


@pytest.mark.parametrize("count", [1, 3])
def test_hidden_checks_are_counted_for_the_reader(count: int) -> None:
    hidden = [replace(HIDDEN, name=f"h{i}", status="passed") for i in range(count)]
    feedback = Feedback(hidden=frozenset(claim.name for claim in hidden))
    said = ("1 hidden check is", "it") if count == 1 else ("3 hidden checks are", "them")
    whole = build_report([record(passed(CLAIM), replace(passed(CLAIM), name="b"), *hidden)])
    shown = text.render(redact_report(whole, feedback))
    assert f"  {said[0]} not shown; the score counts {said[1]}.\n" in shown
    assert "  All 2 checks that are shown pass.\n" in shown


def test_properties_shown_by_name_are_all_shown() -> None:
    crashes = [replace(CLAIM, name=n, claim=f"Claim {n}.", status="crashed") for n in "abc"]
    report = build_report([record(*crashes)])
    shown = text.render(redact_report(report, Feedback(FeedbackLevel.NAME)))
    assert all(f"  Crashed in this check: Claim {n}.\n    crashed\n" in shown for n in "abc")


# ---------------------------------------------------------------------------- in words


@pytest.mark.parametrize("kind", ViolationKind)
def test_difference_can_be_described_without_numbers(kind: ViolationKind) -> None:
    found = Violation(kind, "0.5", "1.5", "output[0, 2] after 3", "It holds.", "seed=3", "look")
    got = f"  got       {KIND_MESSAGES[kind]} at output after 3"
    assert found.redacted_message == f"Fails: It holds.\n{got}\n  hint      look"
    bare = Violation(kind, "0.5", "1.5", claim="It holds.")
    assert bare.redacted_message == f"Fails: It holds.\n  got       {KIND_MESSAGES[kind]}"


@pytest.mark.parametrize(
    ("status", "message", "words"),
    [
        (Status.CRASHED, "ValueError: [0.25, 0.5]", "ValueError was raised (cell 7, line 3)"),
        (Status.CRASHED, "KeyError", "KeyError was raised (cell 7, line 3)"),
        (Status.CRASHED, "T0_25_0_5: no", "it crashed (cell 7, line 3)"),
        (Status.CRASHED, "print: it is built in", "it crashed (cell 7, line 3)"),
        (Status.CRASHED, "the process died (Killed)", "it crashed (cell 7, line 3)"),
        (Status.TIMED_OUT, "took more than 10 s", "it took too long"),
        (Status.OUT_OF_MEMORY, "MemoryError: 0.25", "it asked for too much memory"),
    ],
)
def test_builtin_exception_is_shown_by_its_name(status: Status, message: str, words: str) -> None:
    verdict = Verdict(FIRST, status, failure=SubmissionFailed(status, message, 7, 3), hint="look")
    heading = head_check(status, FIRST.claim)
    assert verdict.redacted_message == f"{heading}\n  got       {words}\n  hint      look"


@pytest.mark.parametrize("status", [Status.CRASHED, Status.TIMED_OUT, Status.OUT_OF_MEMORY])
def test_property_hint_is_not_shown_where_nothing_was_compared(status: Status) -> None:
    verdict = Verdict(FIRST, status, failure=SubmissionFailed(status, "no"))
    assert FIRST.hint and FIRST.hint not in verdict.redacted_message + verdict.message


def test_other_verdicts_have_no_message() -> None:
    assert Verdict(SECOND, Status.NOT_TRIED, blocked_by=FIRST).redacted_message == ""
    assert Verdict(FIRST, Status.PASSED).redacted_message == ""


# ---------------------------------------------------------------------------- settings


@pytest.mark.parametrize("level", FeedbackLevel)
def test_a_level_is_read_by_its_name(level: FeedbackLevel) -> None:
    assert parse_level(level.value) == Feedback(level)


def test_unknown_level_is_reported() -> None:
    with pytest.raises(BadFeedback) as caught:
        parse_level("ful")
    advice = "levels of single checks are for a course file, and --course"
    told = f"--feedback: there is no level 'ful'; {advice}; did you mean 'full'?"
    assert str(caught.value) == told


def test_nobody_is_told_more_than_what_binds_them() -> None:
    exam = Feedback(FeedbackLevel.CASE, {SECOND.name: FeedbackLevel.NAME}, frozenset({FIRST.name}))
    assert bind_feedback(None, exam) == exam
    full = bind_feedback(FULL_FEEDBACK, exam)
    assert (full.level, full.hidden) == (FeedbackLevel.CASE, exam.hidden)
    assert full.get_level(SECOND.name) is FeedbackLevel.NAME
    less = bind_feedback(Feedback(FeedbackLevel.MESSAGE), exam)
    assert less.get_level("anything") is FeedbackLevel.MESSAGE
    assert less.get_level(SECOND.name) is FeedbackLevel.NAME
    assert less.hidden == exam.hidden


CASES = Feedback(FeedbackLevel.CASE)


@pytest.mark.parametrize(
    ("wanted", "binding", "more"),
    [
        (FULL_FEEDBACK, FULL_FEEDBACK, False),
        (FULL_FEEDBACK, CASES, True),
        (Feedback(FeedbackLevel.NAME), CASES, False),
        (CASES, CASES, False),
        (CASES, Feedback(FeedbackLevel.FULL, {FIRST.name: FeedbackLevel.NAME}), True),
        (FULL_FEEDBACK, Feedback(hidden=frozenset({FIRST.name})), True),
        (CASES, Feedback(hidden=frozenset({FIRST.name})), False),
    ],
)
def test_it_is_known_who_wants_more(wanted: Feedback, binding: Feedback, more: bool) -> None:
    assert tells_more(wanted, binding) is more


@pytest.mark.parametrize("level", [FeedbackLevel.NAME, FeedbackLevel.MESSAGE, FeedbackLevel.CASE])
def test_seed_is_shown_only_at_the_last_level(level: FeedbackLevel) -> None:
    drawn = draw_secret_seed()
    report = build_report([record(CLAIM)], None, drawn)
    shown = redact_report(report, Feedback(level))
    assert shown.seed == SeedRecord("secret", None)
    assert str(drawn.value) not in to_json(shown)
    assert str(drawn.value) in to_json(redact_report(report, FULL_FEEDBACK))


@pytest.mark.parametrize(
    "drawn", [Seed(), make_seed(987654321), draw_secret_seed()], ids=lambda seed: seed.kind
)
def test_text_and_pages_say_which_kind_of_seed_and_never_the_number(drawn: Seed) -> None:
    report = build_report([record(CLAIM)], None, drawn)
    for shown in (text.render(report), *render_pages(report)):
        assert f"cases: {SEED_PHRASES[drawn.kind]}" in shown
        assert drawn.value < 10 or str(drawn.value) not in shown
