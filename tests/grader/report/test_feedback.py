"""A report tells what its level names and nothing else, in every format."""

import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from grader.report.feedback import (
    EVERYTHING,
    READ,
    UNSAID,
    BadFeedback,
    Feedback,
    Level,
    read,
    told,
    told_of,
)
from grader.report.records import (
    Counterexample,
    DiagnosisRecord,
    ErrorRecord,
    Evidence,
    Excerpt,
    NoteRecord,
    PropertyRecord,
    SeedRecord,
    SubmissionRecord,
    report_of,
    to_json,
)
from grader.report.render import html, text
from grader.report.render.view import KNOWN
from grader.seed import Seed, given, secret
from properties import families
from properties.property import Group, Verdict
from properties.violation import IN_WORDS, Kind, Status, SubmissionFailed, Violation

LESS = [level for level in Level if level is not Level.FULL]
FIRST, SECOND = families.ALL[:2]


# ------------------------------------------------------------------- fields and levels

CLAIM = PropertyRecord(
    name="the_name",
    claim="The claim.",
    group="values",
    status="failed",
    points=0.0,
    max_points=2.0,
    message="The claim.\n  expected  THE NUMBERS",
    case="THE CASE",
    counterexample=Counterexample({"seed": 726}, "THE CODE"),
    evidence=Evidence(),
    words="The claim.\n  got       THE WORDS",
    cell=7,
    line=3,
)
HIDDEN = PropertyRecord(
    "hidden_name", "HIDDEN CLAIM", "HIDDEN GROUP", "timed_out", 0.0, 3.0, "HIDDEN MESSAGE",
    "HIDDEN CASE", Counterexample({"seed": 727}, "HIDDEN CODE"), None, "HIDDEN WORDS", 8, 9,
)  # fmt: skip
MISTAKE = DiagnosisRecord("no_scale", "THE MISTAKE", 3, 12, 7, 7)
ALWAYS = {"name", "claim", "group", "status", "points", "max_points"}
TOLD = {
    Level.NAME: ALWAYS,
    Level.MESSAGE: ALWAYS | {"message", "words", "cell", "line"},
    Level.CASE: ALWAYS | {"message", "words", "cell", "line", "case", "counterexample"},
}


def record(*claims: PropertyRecord, **more: object) -> SubmissionRecord:
    troubles = [c.status for c in claims if c.status not in ("passed", "not_tried")]
    made = SubmissionRecord(
        "a.py", "a", "causal_attention", "A", 0.0, 5.0, (troubles or ["passed"])[0], 1.25, claims
    )
    return replace(made, **more)  # type: ignore[arg-type]


def passed(claim: PropertyRecord) -> PropertyRecord:
    return PropertyRecord(claim.name, claim.claim, claim.group, "passed", 2.0, 2.0)


def hiding(level: Level = Level.FULL) -> Feedback:
    return Feedback(level, hidden=frozenset({HIDDEN.name}))


@pytest.mark.parametrize("level", LESS)
def test_a_level_is_a_list_of_fields_and_every_other_is_empty(level: Level) -> None:
    [claim] = told_of(record(CLAIM), Feedback(level)).properties
    empty = PropertyRecord("", "", "", "", 0, 0)
    for field in dataclasses.fields(PropertyRecord):
        if field.name not in TOLD[level]:
            assert getattr(claim, field.name) == getattr(empty, field.name), field.name


def test_levels_tell_more_and_more() -> None:
    found = {level: told_of(record(CLAIM), Feedback(level)).properties[0] for level in Level}
    assert found[Level.NAME].message == ""
    assert found[Level.MESSAGE].message == CLAIM.words
    bare = Counterexample({"seed": 726})
    assert found[Level.CASE] == replace(CLAIM, counterexample=bare, evidence=None)
    assert found[Level.FULL] == CLAIM


def test_everything_is_told_unless_somebody_says_otherwise() -> None:
    report = report_of([record(CLAIM, HIDDEN)])
    assert told(report, EVERYTHING) is report
    assert told(report, None) is report


def test_a_record_of_an_older_report_has_no_words_and_tells_none() -> None:
    old = replace(CLAIM, words="")
    assert told_of(record(old), Feedback(Level.MESSAGE)).properties[0].message == ""


def test_a_claim_may_have_a_level_of_its_own() -> None:
    other = replace(CLAIM, name="other")
    feedback = Feedback(Level.NAME, {"other": Level.FULL})
    first, second = told_of(record(CLAIM, other), feedback).properties
    assert (first.message, second) == ("", other)


@pytest.mark.parametrize("level", Level)
def test_nothing_of_a_hidden_claim_is_told_but_that_it_is_one(level: Level) -> None:
    untried = replace(
        passed(CLAIM),
        status="not_tried",
        points=0.0,
        message=f"Not tried, because this did not hold: {HIDDEN.claim}",
    )
    before = record(CLAIM, HIDDEN, untried, score=2.0)
    after = told_of(before, hiding(level))
    assert "hidden" not in to_json(report_of([after])).lower().replace('"hidden": 1', "")
    assert (after.hidden, after.score, after.max_score, after.seconds) == (1, 2.0, 5.0, 0.0)
    assert after.properties[1].message == ("" if level is Level.NAME else UNSAID)


def test_why_a_claim_was_not_tried_is_told_if_that_claim_is() -> None:
    message = f"Not tried, because this did not hold: {CLAIM.claim}"
    untried = replace(passed(HIDDEN), name="x", status="not_tried", message=message)
    after = told_of(record(CLAIM, untried), Feedback(Level.MESSAGE))
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
def test_the_status_is_that_of_the_first_trouble_told(
    claims: Sequence[PropertyRecord], status: str
) -> None:
    assert told_of(record(*claims), hiding()).status == status


@pytest.mark.parametrize(
    ("claims", "feedback", "is_told"),
    [
        ((CLAIM,), Feedback(Level.NAME), False),
        ((CLAIM,), Feedback(Level.MESSAGE), True),
        ((CLAIM,), Feedback(Level.NAME, {CLAIM.name: Level.CASE}), True),
        ((passed(CLAIM), HIDDEN), hiding(), False),
        ((CLAIM, HIDDEN), hiding(), True),
    ],
)
def test_the_mistake_is_named_where_a_claim_that_it_explains_is_told_in_words(
    claims: Sequence[PropertyRecord], feedback: Feedback, is_told: bool
) -> None:
    after = told_of(record(*claims, diagnosis=(MISTAKE,)), feedback)
    assert after.diagnosis == ((MISTAKE,) if is_told else ())


@pytest.mark.parametrize(
    ("feedback", "count"),
    [(Feedback(Level.NAME), 1), (Feedback(Level.MESSAGE), 2), (hiding(Level.CASE), 1)],
)
def test_what_only_judging_shows_is_kept_back_where_claims_are(
    feedback: Feedback, count: int
) -> None:
    notes = (NoteRecord("prints", "it prints", 1, 2), NoteRecord("float32", "only float32"))
    assert told_of(record(CLAIM, HIDDEN, notes=notes), feedback).notes == notes[:count]


LINES = Excerpt(None, 1, "a\nb\nc", (2, 3))


@pytest.mark.parametrize(
    ("feedback", "marked"),
    [
        (Feedback(Level.NAME), ()),
        (Feedback(Level.MESSAGE), ()),
        (Feedback(Level.CASE), (2, 3)),
        (hiding(Level.FULL), (2,)),
    ],
)
def test_lines_to_look_at_are_those_that_something_told_points_to(
    feedback: Feedback, marked: tuple[int, ...]
) -> None:
    told_, hidden = replace(CLAIM, cell=None, line=2), replace(HIDDEN, cell=None, line=3)
    after = told_of(record(told_, hidden, source=(LINES,)), feedback)
    assert after.source == ((replace(LINES, marked=marked),) if marked else ())


def test_lines_of_what_could_not_be_judged_are_told() -> None:
    error = ErrorRecord("syntax", "no", None, 2)
    unjudged = record(error=error, source=(LINES,))
    assert told_of(unjudged, Feedback(Level.NAME)).source == (LINES,)


def test_lines_that_only_a_hidden_claim_points_to_are_not_told() -> None:
    hidden = replace(HIDDEN, cell=None, line=3)
    after = told_of(record(passed(CLAIM), hidden, source=(LINES,)), hiding())
    assert after.source == ()


def test_the_notes_that_are_always_told_are_made_by_reading() -> None:
    from properties.families.dropout import EXTRA
    from properties.harness.harness import FLOAT32

    assert not {EXTRA.kind, FLOAT32.kind} & set(READ)


@pytest.mark.parametrize("count", [1, 3])
def test_hidden_checks_are_counted_for_the_reader(count: int) -> None:
    hidden = [replace(HIDDEN, name=f"h{i}", status="passed") for i in range(count)]
    feedback = Feedback(hidden=frozenset(claim.name for claim in hidden))
    said = ("1 hidden check is", "it") if count == 1 else ("3 hidden checks are", "them")
    whole = report_of([record(passed(CLAIM), replace(passed(CLAIM), name="b"), *hidden)])
    shown = text.render(told(whole, feedback))
    assert f"  {said[0]} not shown; the score counts {said[1]}.\n" in shown
    assert "  All 2 claims that are shown hold.\n" in shown


def test_claims_told_by_name_are_all_told() -> None:
    crashes = [replace(CLAIM, name=n, claim=f"Claim {n}.", status="crashed") for n in "abc"]
    shown = text.render(told(report_of([record(*crashes)]), Feedback(Level.NAME)))
    assert all(f"  Claim {n}.\n    crashed\n" in shown for n in "abc")


# ---------------------------------------------------------------------------- in words


@pytest.mark.parametrize("kind", Kind)
def test_what_differs_can_be_said_without_a_number(kind: Kind) -> None:
    found = Violation(kind, "0.5", "1.5", "output[0, 2] after 3", "It holds.", "seed=3", "look")
    assert found.words == (
        f"It holds.\n  got       {IN_WORDS[kind]} at output after 3\n  hint      look"
    )
    bare = Violation(kind, "0.5", "1.5", claim="It holds.")
    assert bare.words == f"It holds.\n  got       {IN_WORDS[kind]}"


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
def test_an_exception_is_told_by_its_name_if_that_is_python_s(
    status: Status, message: str, words: str
) -> None:
    verdict = Verdict(FIRST, status, failure=SubmissionFailed(status, message, 7, 3), hint="look")
    assert verdict.words == f"{FIRST.claim}\n  got       {words}\n  hint      look"


@pytest.mark.parametrize("status", [Status.CRASHED, Status.TIMED_OUT, Status.OUT_OF_MEMORY])
def test_the_hint_of_a_claim_is_not_about_time_and_memory(status: Status) -> None:
    verdict = Verdict(FIRST, status, failure=SubmissionFailed(status, "no"))
    given = status is Status.CRASHED
    assert (FIRST.hint in verdict.words) == (FIRST.hint in verdict.message) == given


def test_other_verdicts_need_no_words() -> None:
    assert Verdict(SECOND, Status.NOT_TRIED, because=FIRST).words == ""
    assert Verdict(FIRST, Status.PASSED).words == ""


# ---------------------------------------------------------------------------- settings


@pytest.mark.parametrize("level", Level)
def test_a_level_is_read_by_its_name(level: Level) -> None:
    assert read(level.value) == Feedback(level)


def test_a_file_says_it_claim_by_claim_or_group_by_group(tmp_path: Path) -> None:
    path = tmp_path / "exam.toml"
    path.write_text(
        'level = "message"\nhidden = ["dropout", "bfloat16_runs"]\n'
        '[levels]\nthe_output_is_finite = "case"\ncontract = "full"\n'
    )
    found = read(str(path))
    dropout = {claim.name for claim in families.ALL if claim.group is Group.DROPOUT}
    assert found.hidden == dropout | {"bfloat16_runs"}
    assert found.of("the_output_is_finite") is Level.CASE
    assert found.of("it_can_be_constructed") is Level.FULL
    assert found.of("it_equals_the_equation") is Level.MESSAGE


def test_a_file_that_says_nothing_hides_nothing(tmp_path: Path) -> None:
    path = tmp_path / "nothing.toml"
    path.write_text("")
    assert read(str(path)) == EVERYTHING


@pytest.mark.parametrize(
    ("written", "problem"),
    [
        ("level = 'mesage'", "level: there is no level 'mesage'; did you mean message?"),
        ("level = 3", "level: there is no level 3; there are name, message, case, full"),
        ("[levels]\nvalues = 'all'", "levels.values: there is no level 'all'; there are name, "),
        ("hiden = []", "there is no setting 'hiden'; did you mean hidden?"),
        ("hidden = 'dropout'", 'hidden must be a list of names: hidden = ["claim", "group"]'),
        ("levels = 'name'", 'levels must be a table: [levels], and below it claim = "level"'),
        (
            "hidden = ['it_equal_the_equation']",
            "hidden: there is no claim or group 'it_equal_the_equation'; "
            "did you mean it_equals_the_equation",
        ),
        (
            "hidden = ['droput']",
            "hidden: there is no claim or group 'droput'; did you mean dropout",
        ),
        (
            "[levels]\nzzz = 'name'",
            "levels: there is no claim or group 'zzz'; docs/invariants.md lists them",
        ),
        ("level =", "is not TOML: "),
    ],
)
def test_a_file_that_cannot_be_used_says_where_and_what_was_meant(
    tmp_path: Path, written: str, problem: str
) -> None:
    path = tmp_path / "exam.toml"
    path.write_text(written)
    with pytest.raises(BadFeedback) as caught:
        read(str(path))
    assert str(caught.value).startswith(f"{path}: {problem}")


def test_what_is_neither_a_level_nor_a_file_is_said() -> None:
    with pytest.raises(BadFeedback) as caught:
        read("ful")
    expected = "--feedback: there is no level 'ful'; did you mean full? (or name a .toml file)"
    assert str(caught.value) == expected
    with pytest.raises(BadFeedback, match=r"none\.toml: cannot be read: No such file"):
        read("none.toml")


@pytest.mark.parametrize("level", [Level.NAME, Level.MESSAGE, Level.CASE])
def test_the_seed_is_told_at_no_level_but_the_last(level: Level) -> None:
    drawn = secret()
    report = report_of([record(CLAIM)], None, drawn)
    shown = told(report, Feedback(level))
    assert shown.seed == SeedRecord("secret", None)
    assert str(drawn.value) not in to_json(shown)
    assert str(drawn.value) in to_json(told(report, EVERYTHING))


@pytest.mark.parametrize("drawn", [Seed(), given(987654321), secret()], ids=lambda seed: seed.kind)
def test_text_and_pages_say_which_kind_of_seed_and_never_the_number(drawn: Seed) -> None:
    report = report_of([record(CLAIM)], None, drawn)
    pages = [html.index(report), html.whole(report), html.page(report.submissions[0], report)]
    for shown in (text.render(report), *pages):
        assert f"cases: {KNOWN[drawn.kind]}" in shown
        assert drawn.value < 10 or str(drawn.value) not in shown
