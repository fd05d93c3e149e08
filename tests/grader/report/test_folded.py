"""What a terminal and a page show of many failures, with a named mistake and without."""

from dataclasses import replace

import pytest

from headcheck.grader.report.feedback import Feedback, FeedbackLevel, redact_submission
from headcheck.grader.report.records import (
    DiagnosisRecord,
    ExampleRecord,
    NoteRecord,
    PropertyRecord,
    SubmissionRecord,
)
from headcheck.grader.report.render import github, html, text
from headcheck.grader.report.render.lines import COLUMNS
from headcheck.grader.report.render.view import make_view
from tests.grader.report.records import (
    EQUATION,
    FUTURE,
    SHAPE,
    Outline,
    count_rows,
    make_crashed,
    make_failed,
    make_property,
    make_report,
    make_submission,
    make_untried,
)

MISTAKE = DiagnosisRecord("no_mask", "Nothing is hidden.", 3, 12, 7, 7)
SECOND = DiagnosisRecord("no_scale", "The scores are not scaled.", None, None, 7, 7)
TABLES = (("4", "2"), ("4", "0")), (("2", "1"), ("2", "0")), (("4", "2"), ("-4", "0.25"))
EXAMPLE = ExampleRecord("2 tokens, d_k = 4", "q·k", "scores", *TABLES)
MORE = "--all"


def follow(claim: PropertyRecord) -> PropertyRecord:
    return replace(claim, follows=True)


def fail_many(count: int, group: str = "values") -> list[PropertyRecord]:
    return [make_failed(f"Claim {n} of {group}.", group) for n in range(count)]


def explain(
    *claims: PropertyRecord, by: tuple[DiagnosisRecord, ...] = (MISTAKE,)
) -> SubmissionRecord:
    return make_submission(*claims, diagnosis=by)


def render(record: SubmissionRecord, more: str = MORE) -> str:
    return text.render(make_report(record), more)


def test_what_follows_is_one_example_and_one_line() -> None:
    record = explain(make_property(SHAPE, "contract"), *map(follow, fail_many(18)))
    assert (
        render(record)
        == """\
ada.py  causal_attention (CausalAttention)  2 / 38  failed

  One mistake was found; it explains the answers to all 7 inputs tried:
    Nothing is hidden. (look at cell 3, line 12)

  points: values 0 / 36
  all checks pass: contract

  Fails: Claim 0 of values.
    expected  0.5 ± 1e-06 at output[0, 0]
    got       1.5
    on        batch=1 tokens=2 heads=1 float64 cpu seed=3
    hint      √d_k?
  17 more checks fail for this reason; --all shows them
"""
    )


SHOWN_EXAMPLE = """\
    Nothing is hidden. (look at cell 3, line 12)
      For example, 2 tokens, d_k = 4:
      q·k    right scores    scores with this mistake
      4 2    2 1              4    2
      4 0    2 0             -4 0.25
"""


def test_a_mistake_is_shown_on_round_numbers() -> None:
    record = explain(follow(make_failed(EQUATION)), by=(replace(MISTAKE, example=EXAMPLE),))
    assert SHOWN_EXAMPLE in render(record) and SHOWN_EXAMPLE in render(record, "")
    page = html.render_page(record, make_report())
    assert "<caption>For example, 2 tokens, d_k = 4</caption>" in page
    assert "<tr><td>4 0</td><td>2 0</td><td>-4 0.25</td></tr>" in page


def test_an_example_gives_way_to_failures() -> None:
    """A submission never fills more lines for it: what is wrong goes first."""
    by = (replace(MISTAKE, example=EXAMPLE), replace(SECOND, example=EXAMPLE))
    claims = [*map(follow, fail_many(3)), *fail_many(9, "mask")]
    shown = render(explain(*claims, by=by))
    assert "For example" not in shown and len(shown.splitlines()) <= text.MAX_LINES
    assert render(explain(*claims, by=by), "").count("For example") == 2


def test_one_more_is_it() -> None:
    shown = render(explain(*map(follow, fail_many(2))))
    assert "  1 more check fails for this reason; --all shows it\n" in shown
    assert "for this reason" not in render(explain(*map(follow, fail_many(1))))


@pytest.mark.parametrize(
    ("by", "said"), [((MISTAKE,), "explained by it:"), ((MISTAKE, SECOND), "explained by them:")]
)
def test_what_does_not_follow_comes_below_and_is_said_so(
    by: tuple[DiagnosisRecord, ...], said: str
) -> None:
    shown = render(explain(make_failed(EQUATION), follow(make_failed(FUTURE)), by=by))
    order = [FUTURE, f"  1 failed check is not {said}\n", EQUATION]
    assert [shown.index(each) for each in order] == sorted(shown.index(each) for each in order)


def test_nothing_is_said_of_what_follows_if_nothing_does() -> None:
    shown = render(explain(make_failed(EQUATION), make_failed(FUTURE)))
    assert "explained by" not in shown and "reason" not in shown


def without_hint(claim: PropertyRecord) -> PropertyRecord:
    return replace(claim, message=claim.message.rpartition("\n  hint")[0])


def test_the_example_is_one_of_values_or_of_the_group_that_a_mistake_breaks_most() -> None:
    passed = [replace(make_failed(f"Held {n}.", "values"), status="passed") for n in range(3)]
    few, all_ = make_failed(EQUATION, "values"), make_failed(FUTURE, "mask")
    shown = render(explain(*passed, follow(few), follow(all_)))
    assert EQUATION in shown and FUTURE not in shown
    held = [replace(each, group="batch") for each in passed]
    shown = render(explain(*held, follow(replace(few, group="batch")), follow(all_)))
    assert FUTURE in shown and EQUATION not in shown


def test_the_example_of_a_mistake_known_by_a_check_is_that_check() -> None:
    """It alone has kept its hint; no answers were compared."""
    known = (replace(MISTAKE, cases_matched=0, cases_tried=0),)
    first, second = (follow(make_failed(claim, "values")) for claim in (EQUATION, FUTURE))
    shown = render(explain(without_hint(first), second, by=known))
    assert FUTURE in shown and EQUATION not in shown
    assert EQUATION in render(explain(first, without_hint(second), by=known))


def test_what_is_not_explained_goes_before_the_example() -> None:
    masks = make_failed(EQUATION, "mask"), make_failed(FUTURE, "mask")
    notes = tuple(NoteRecord("prints", f"note {n}") for n in range(4))
    shown = render(replace(explain(*map(follow, fail_many(9)), *masks), notes=notes))
    assert "  9 checks fail for this reason; --all shows them\n" in shown
    assert EQUATION in shown and shown.count("expected") == 1
    assert "  1 more check fails; --all shows it:\n" in shown
    assert len(shown.splitlines()) <= text.MAX_LINES


def test_claims_of_what_is_folded_are_listed_where_there_is_room() -> None:
    notes = (NoteRecord("prints", "a note\n" * lines) for lines in range(1, 5))
    shown = [render(make_submission(*fail_many(9), notes=(note,))) for note in notes]
    assert all(len(each.splitlines()) <= text.MAX_LINES for each in shown)
    assert any("--all shows them. Among them:\n    Claim 2 of values.\n" in each for each in shown)


@pytest.mark.parametrize("count", [1, 2, 3, 4, 40])
def test_without_a_mistake_there_are_as_many_as_fit(count: int) -> None:
    shown = render(make_submission(*fail_many(count)))
    left = count - shown.count("expected")
    assert len(shown.splitlines()) <= text.MAX_LINES
    assert count == 1 or shown.count("expected") >= 2
    assert (f"{left} more check" in shown) is (left > 0)


def test_there_is_always_one() -> None:
    note = NoteRecord("prints", "a long note\n" * 20)
    shown = render(make_submission(*fail_many(3), notes=(note,)))
    assert shown.count("expected") == 1 and "2 more checks fail; --all" in shown


def test_notes_below_failures_are_counted_and_those_of_a_right_answer_are_not() -> None:
    notes = tuple(NoteRecord("prints", f"note {n}") for n in range(5))
    shown = render(make_submission(*fail_many(2), notes=notes))
    assert "note 1\n" in shown and "note 2\n" not in shown
    assert "  note  and 3 more notes; --all shows them\n" in shown
    assert render(make_submission(make_property(SHAPE), notes=notes)).count("note  note") == 5


def test_a_note_that_is_the_hint_of_the_failure_is_not_repeated() -> None:
    """Unless all is shown."""
    hint = NoteRecord("import", "√d_k?", None, 3)
    record = make_submission(*fail_many(1), notes=(hint,))
    assert "note" not in render(record)
    assert "  note  √d_k? (line 3)\n" in render(record, "")


def test_lines_that_a_terminal_wraps_count_as_several() -> None:
    long = [make_failed(f"Claim {n}. {'It is long. ' * 20}") for n in range(4)]
    shown = render(make_submission(*long))
    assert shown.count("expected") == 2 and "2 more checks fail; --all" in shown
    assert count_rows(shown) <= text.MAX_LINES < len(render(make_submission(*long), "").split("\n"))


def test_what_is_beside_a_failure_gives_way_to_it() -> None:
    """First the notes, then the sentences on all checks, or the example of a mistake, or both."""
    notes = tuple(NoteRecord("prints", f"note {n}") for n in range(3))
    by = (replace(MISTAKE, example=EXAMPLE),)
    for words, examples, listed, summary in (
        (0, True, True, True),
        (15, True, False, True),
        (20, True, False, False),
        (35, False, False, True),
        (60, False, False, False),
    ):
        failed = make_failed(EQUATION, got="1.5 " + "it is long. " * words)
        record = replace(explain(follow(failed), make_untried("a", EQUATION), by=by), notes=notes)
        shown = render(record)
        assert ("For example" in shown) is examples
        assert ("note 0" in shown) is listed and ("3 notes; --all" in shown) is not listed
        assert ("1 check not tried" in shown) is not summary


def test_reasons_for_not_trying_are_one_sentence() -> None:
    failed, untried = make_failed(EQUATION), make_untried("a", EQUATION)
    one = make_submission(failed, untried)
    assert "  1 check was not tried, because others did not pass.\n" in render(one)
    whole = f"1 check was not tried, because this check did not pass: {EQUATION}\n"
    assert whole in render(one, "")
    two = make_submission(failed, untried, make_failed(FUTURE), make_untried("b", FUTURE))
    assert "  2 checks were not tried, because others did not pass.\n" in render(two)
    assert render(two, "").count("was not tried, because this check did not pass") == 2


def test_crashes_of_one_kind_are_folded_as_before() -> None:
    crashed = [make_crashed(claim) for claim in "abcdef"]
    assert "    5 more checks ended the same way\n" in render(make_submission(*crashed))
    both = render(explain(*map(follow, crashed[:3]), *crashed[3:]))
    assert both.count("    2 more checks ended the same way\n") == 2


def test_many_groups_are_few_lines() -> None:
    claims = [make_failed(f"{n}", f"group {n}") for n in range(13)]
    rows = render(make_submission(*claims)).split("\n\n")[1].splitlines()
    assert len(rows) <= 3 and all(len(row) <= COLUMNS for row in rows)
    assert not any(row.rstrip(",").endswith(("/", "0 /", "group")) for row in rows)


def test_everything_is_shown_without_a_word_for_more() -> None:
    claims = [*map(follow, fail_many(9)), *fail_many(9, "mask"), make_untried(SHAPE, EQUATION)]
    shown = render(explain(*claims), "")
    assert all(f"  Fails: {claim.claim}\n" in shown for claim in claims[:-1])
    assert "--" not in shown and "9 failed checks are not explained by it:\n" in shown


def test_a_page_has_one_closed_part_for_what_follows() -> None:
    claims = [*map(follow, fail_many(4)), make_failed(EQUATION, "mask")]
    page = html.render_page(explain(*claims), make_report())
    head, _, fold = page.partition('<details class="group">\n<summary><div class="row"><h2 class')
    assert "3 more checks fail for this reason" in fold
    assert ": Claim 0 of values.</h" in head and ": Claim 1 of values.</h" not in head
    assert ": Claim 1 of values.</h" in fold and EQUATION not in fold
    assert "1 failed check is not explained by it:" in Outline(page).words
    listed = head.partition("Does not hold for the reason above")[2]
    assert "<li>Claim 1 of values.</li>" in listed


def test_a_fragment_folds_as_the_page_does() -> None:
    shown = html.render_fragment(explain(*map(follow, fail_many(4))))
    assert "3 more checks fail for this reason" in shown


def test_a_workflow_gets_what_does_not_follow_first_and_everything_in_the_log() -> None:
    record = explain(follow(make_failed(EQUATION)), make_failed(FUTURE))
    titles = [each.title for each in github.collect_annotations(record)]
    assert titles == ["The mistake", *(f"Fails: {each}" for each in (FUTURE, EQUATION))]
    log = github.render(make_report(record), lambda *_: None)
    assert text.render(make_report(record)) in log


# ------------------------------------------------------------------ levels of feedback


@pytest.mark.parametrize("level", FeedbackLevel)
def test_what_follows_is_told_with_the_mistake(level: FeedbackLevel) -> None:
    record = explain(follow(make_failed(EQUATION)), make_failed(FUTURE))
    told = redact_submission(record, Feedback(level))
    assert bool(told.diagnosis) is (level is not FeedbackLevel.NAME)
    assert [claim.follows for claim in told.properties] == [bool(told.diagnosis), False]


@pytest.mark.parametrize("level", FeedbackLevel)
def test_an_example_is_told_from_the_level_of_cases_on(level: FeedbackLevel) -> None:
    record = explain(follow(make_failed(EQUATION)), by=(replace(MISTAKE, example=EXAMPLE),))
    told = redact_submission(record, Feedback(level))
    examples = [each.example for each in told.diagnosis]
    assert (EXAMPLE in examples) is level.includes(FeedbackLevel.CASE)


def test_what_is_hidden_is_not_counted_among_what_follows() -> None:
    record = explain(*map(follow, fail_many(3)))
    hidden = record.properties[2]
    told = redact_submission(record, Feedback(hidden=frozenset({hidden.name})))
    assert "  1 more check fails for this reason; --all shows it\n" in render(told)
    assert hidden.claim not in render(told, "")


def test_one_level_for_each_does_not_mix_up_what_follows() -> None:
    record = explain(follow(make_failed(EQUATION)), follow(make_failed(FUTURE)))
    levels = {EQUATION: FeedbackLevel.NAME}
    told = redact_submission(record, Feedback(FeedbackLevel.MESSAGE, levels))
    assert [claim.follows for claim in told.properties] == [True, True]
    assert not make_view(told).unexplained


def test_of_many_printed_lines_the_first_are_shown() -> None:
    lines = [f"line {n}" for n in range(9)]
    record = make_submission(replace(make_failed(EQUATION), printed="\n".join(lines)))
    whole, folded = render(record, ""), render(record)
    assert all(f"              {line}\n" in whole for line in lines[1:])
    assert "    printed   line 0\n" in whole and "    printed   line 0\n" in folded
    assert "              line 4\n              [… 4 more lines; --all shows them]\n" in folded
    assert "line 5" not in folded
    six = make_submission(replace(make_failed(EQUATION), printed="\n".join(lines[:6])))
    assert "line 5" in render(six), "a line about one line would be no shorter"
