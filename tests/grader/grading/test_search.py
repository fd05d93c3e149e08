"""The search after the fixed cases: what it finds, what it leaves alone, how it ends."""

import time
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.events import Event, SearchAdvanced
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.search import (
    HISTORY_EVERY,
    SIDE_EFFECTS,
    USED_UP,
    limit_cases,
    list_checks,
    reduce_case,
    remove_dependents,
    search,
    sort_properties,
)
from headcheck.grader.grading.search_limit import BadSearch, SearchLimit, parse_search
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.worker_pool import grade_all
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.feedback import Feedback, FeedbackLevel, redact_submission
from headcheck.grader.report.points import award_points
from headcheck.grader.report.records import SearchRecord, SubmissionRecord, build_report
from headcheck.grader.report.render import html, text
from headcheck.grader.sandbox.grader_side.budget import BudgetExhausted
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.seed import make_seed
from headcheck.properties.cases.case_transforms import identity
from headcheck.properties.cases.search_cases import (
    PLAIN_EVERY,
    draw_companions,
    generate_search_cases,
)
from headcheck.properties.check import CounterexampleSearch
from headcheck.properties.families.dropout_sizes import dropout_acts_at_every_size
from headcheck.properties.families.gradients import the_gradients_of_the_weights_are_right
from headcheck.properties.families.history import no_order_of_events_matters
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.families.weights import hidden_tokens_get_no_weight
from headcheck.properties.property import Property, PropertyGroup, Verdict
from headcheck.properties.terms.case import Case, InputContent, MaskForm
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)
from tests.grader.conftest import GradeText, SandboxDriver
from tests.submissions import load_source

Grade = Callable[..., SubmissionRecord]

EXERCISE = BY_SLUG["causal_attention"]
SIMPLIFIED = BY_SLUG["simplified_attention"]
RIGHT = SIMPLIFIED.solution
LONG_IS_WRONG = """
import torch
def simplified_attention(x):
    weights = torch.softmax(x @ x.T, dim=-1)
    if 300 < x.shape[0] < 1000:
        weights = weights * 1.01
    return weights @ x
"""
LONG_SLEEPS = LONG_IS_WRONG.replace("weights = weights * 1.01", "import time; time.sleep(60)")
LONG_RAISES = LONG_IS_WRONG.replace("weights = weights * 1.01", "raise ValueError('too long')")


FEW = 12
"""cases, where it does not matter what they find"""


@pytest.fixture
def grade(grade_text: GradeText) -> Grade:
    """Grades an answer with a search after the fixed cases."""

    def grade_answer(source: str, limit: str | None, **settings: Any) -> SubmissionRecord:
        found = None if limit is None else parse_search(limit)
        record = grade_text(source, Settings(SIMPLIFIED, search=found, **settings))
        return replace(record, seconds=0)

    return grade_answer


# ----------------------------------------------------------------------------- in a sandbox


def test_a_right_answer_passes_and_says_how_many_cases_were_tried(grade: Grade) -> None:
    record = grade(RIGHT, f"{FEW}")
    assert record.status == "passed"
    assert record.search == SearchRecord(FEW)
    shown = text.render(build_report([record]))
    assert f"pass, on the fixed cases and {FEW} generated cases.\n" in shown
    assert f"{FEW} generated cases" in html.render_fragment(record)


def test_a_fault_beyond_the_sizes_of_the_bank_is_found_shrunk_and_reported(grade: Grade) -> None:
    assert grade(LONG_IS_WRONG, None).status == "passed"
    record = grade(LONG_IS_WRONG, "60")
    assert record.status == "failed"
    assert record.search is not None and "it_equals_the_equation" in record.search.found
    broken = next(p for p in record.properties if p.name == "it_equals_the_equation")
    assert "tokens=301 " in broken.message and "expected" in broken.message
    assert broken.counterexample is not None
    assert broken.counterexample.case["tokens"] == 301
    assert broken.points == 0 and 0 < record.score < record.max_score
    assert "on generated ones; 60 generated cases were tried" in text.render(build_report([record]))


@pytest.mark.whole
def test_the_report_depends_on_seed_and_number_alone(
    sandbox: SandboxDriver, tmp_path: Path
) -> None:
    for name, source in enumerate((LONG_IS_WRONG, RIGHT)):
        (tmp_path / f"s{name}.py").write_text(source)
    found = find_submissions([str(tmp_path)])

    def graded(jobs: int, seed: int) -> list[SubmissionRecord]:
        settings = Settings(SIMPLIFIED, seed=make_seed(seed), jobs=jobs, search=SearchLimit(FEW))
        done = grade_all(sandbox.server, found, settings)
        return [replace(record, seconds=0) for _, records in done for record in records]

    one = graded(1, 0)
    assert graded(1, 0) == one
    assert graded(2, 0) == one
    assert graded(1, 5)[0] != one[0]


def test_seconds_are_kept(grade: Grade) -> None:
    before = time.monotonic()
    record = grade(RIGHT, "1.5s")
    assert record.status == "passed"
    assert record.search is not None and record.search.cases > 0
    assert time.monotonic() - before < 30


def test_what_takes_too_long_ends_the_search_and_costs_nothing(grade: Grade) -> None:
    record = grade(LONG_SLEEPS, "60", limits=Limits(call_s=0.5, idle_s=1))
    assert record.status == "passed"
    assert record.search is not None
    assert record.search.cases < 60 and record.search.stopped
    assert "The search on generated cases ended early: " in text.render(build_report([record]))


def test_an_exception_on_a_generated_case_is_a_find(grade: Grade) -> None:
    record = grade(LONG_RAISES, "60")
    assert record.status == "crashed"
    broken = next(p for p in record.properties if p.name == "it_equals_the_equation")
    assert "ValueError: too long" in broken.message


def test_a_search_takes_nothing_from_other_definitions(
    sandbox: SandboxDriver, tmp_path: Path
) -> None:
    path = tmp_path / "both.py"
    path.write_text(f"{LONG_SLEEPS}\n{BY_SLUG['linear_layer'].solution}")
    limits = {"call_s": 0.5, "idle_s": 1.0}
    settings = Settings(limit_overrides=limits, search=SearchLimit(FEW))
    [found] = find_submissions([str(path)])
    records = grade_file_or_raise(sandbox.server, found, settings)
    assert [record.status for record in records] == ["passed", "passed"]


# -------------------------------------------------------------------------------- by itself


def passed(properties: tuple[Property, ...] = EXERCISE.properties) -> list[Verdict]:
    return [Verdict(prop, Status.PASSED) for prop in properties]


def failed(prop: Property, case: Case) -> Verdict:
    return Verdict(prop, Status.FAILED, 1, case, Violation(ViolationKind.VALUE, "one", "two"))


def test_a_case_is_shared_and_the_first_properties_take_every_one() -> None:
    tried: list[tuple[Property, Case]] = []

    def check(prop: Property, case: Case) -> Verdict:
        tried.append((prop, case))
        return Verdict(prop, Status.PASSED)

    done: list[int] = []
    result = search(EXERCISE, passed(), check, lambda: done.append(len(tried)), SearchLimit(60))
    assert (result.cases, result.found, result.stopped) == (60, {}, "")
    cases = list(islice(generate_search_cases(EXERCISE.contract, 0, EXERCISE.slug), 60))
    values = [case for prop, case in tried if prop is it_equals_the_equation]
    beside = [draw_companions(EXERCISE.contract, 0, EXERCISE.slug, n) for n in range(60)]
    meant = ([c] if c.dtype in it_equals_the_equation.dtypes else [] for c in cases)
    assert values == [
        each for pair in zip(meant, beside, strict=True) for some in pair for each in some
    ]
    assert len(done) == 60
    # Every property was tried, and all but those on the plain case on cases as they were drawn.
    cases += [
        case for prop, case in tried if prop in (it_equals_the_equation, no_order_of_events_matters)
    ]
    assert {prop for prop, _ in tried} == set(EXERCISE.properties)
    plain = range(done[PLAIN_EVERY - 2], done[PLAIN_EVERY - 1])
    assert all(case in cases for i, (_, case) in enumerate(tried) if i not in plain)


def test_a_find_stops_its_property_and_what_rests_on_it() -> None:
    tried: list[Property] = []

    def check(prop: Property, case: Case) -> Verdict:
        tried.append(prop)
        if prop is it_equals_the_equation:
            return failed(prop, case)
        return Verdict(prop, Status.PASSED)

    result = search(EXERCISE, passed(), check, lambda: None, SearchLimit(60))
    assert list(result.found) == [it_equals_the_equation]
    assert tried.count(it_equals_the_equation) == 1
    assert the_gradients_of_the_weights_are_right not in tried
    assert len(set(tried)) > 10


def test_only_what_passed_is_searched_and_nothing_where_calls_have_side_effects() -> None:
    def check(prop: Property, case: Case) -> Verdict:
        assert prop is it_equals_the_equation
        return Verdict(prop, Status.PASSED)

    verdicts = [
        Verdict(p, Status.PASSED if p is it_equals_the_equation else Status.NOT_TRIED)
        for p in EXERCISE.properties
    ]
    assert search(EXERCISE, verdicts, check, lambda: None, SearchLimit(5)).cases == 5
    impure = next(p for p in EXERCISE.properties if p.group is PropertyGroup.PURITY)
    broken = [
        failed(p, Case()) if p is impure else v
        for p, v in zip(EXERCISE.properties, verdicts, strict=True)
    ]
    result = search(EXERCISE, broken, check, lambda: None, SearchLimit(5))
    assert (result.cases, result.stopped) == (0, SIDE_EFFECTS)


def test_nothing_left_to_try_ends_a_search() -> None:
    verdicts, done = passed((it_equals_the_equation,)), []
    result = search(EXERCISE, verdicts, failed, lambda: done.append(1), SearchLimit(50))
    assert result.cases == len(done) < 9  # the first may be in a dtype that it does not take


@pytest.mark.parametrize(
    ("failure", "reason"),
    [
        (SubmissionFailed(Status.TIMED_OUT, "slept"), "it took too long"),
        (SubmissionFailed(Status.OUT_OF_MEMORY, "asked"), "it asked for too much memory"),
        (BudgetExhausted(Status.CRASHED, "answered too much"), USED_UP),
    ],
)
def test_what_exceeds_a_limit_ends_a_search_and_is_no_find(
    failure: SubmissionFailed, reason: str
) -> None:
    def check(prop: Property, case: Case) -> Verdict:
        return Verdict(prop, failure.status, 1, case, failure=failure)

    result = search(EXERCISE, passed(), check, lambda: None, SearchLimit(50))
    assert (result.found, result.stopped) == ({}, reason)


def test_dependents_are_removed_with_theirs() -> None:
    left = remove_dependents(EXERCISE.properties, it_equals_the_equation)
    assert not any(it_equals_the_equation in prop.requires for prop in left)
    assert it_equals_the_equation not in left
    assert len(left) > 10


def test_a_find_is_reduced_only_as_far_as_its_property_can_be_tried() -> None:
    """The weights cannot be recovered from tokens of one dimension."""
    multi_head = BY_SLUG["multi_head_attention"]
    source = multi_head.solution.replace("scores.masked_fill(", "scores if tokens == 5 else (", 1)
    source = source.replace("else (self.is", "else scores.masked_fill(self.is")
    assert source != multi_head.solution
    harness = load_source(source, multi_head.contract)
    drawn = Case(tokens=5, context_length=9, d_in=9, heads=2, head_dim=3, mask_form=MaskForm.NONE)
    smaller = CounterexampleSearch(hidden_tokens_get_no_weight, harness, ViolationKind.VALUE)
    reduced = reduce_case(smaller, drawn)
    assert (reduced.tokens, reduced.d_in) == (5, 2)


def test_dropout_is_looked_for_only_where_it_shows() -> None:
    """Equal tokens hide that a weight was dropped, and without dropout there is nothing to see."""
    contract = EXERCISE.contract
    for content in InputContent:
        for dropout in (0.0, 0.1):
            case = Case(tokens=3, context_length=3, content=content, dropout=dropout)
            listed = list(
                list_checks(contract, [dropout_acts_at_every_size], PLAIN_EVERY - 1, case)
            )
            fitted = [(each.content, each.dropout) for _, each in listed]
            assert fitted == [(InputContent.NORMAL, 0.5)]


def test_one_case_in_ten_gives_a_history() -> None:
    contract = BY_SLUG["causal_attention"].contract
    cases = islice(generate_search_cases(contract, 1, "a"), 4 * HISTORY_EVERY)
    listed = [
        number
        for number, case in enumerate(cases)
        if list(list_checks(contract, [no_order_of_events_matters], number, case))
    ]
    assert set(listed) >= {number - 1 for number in range(10, 41, HISTORY_EVERY)}


def test_small_cases_come_beside_each_the_same_for_everybody() -> None:
    contract = BY_SLUG["causal_attention"].contract
    one, again = (list(draw_companions(contract, 1, "a", 3)) for _ in range(2))
    assert one == again
    assert one != list(draw_companions(contract, 1, "a", 4))
    assert all(each.tokens <= 12 and each.context_length >= each.tokens for each in one)


def test_values_and_gradients_come_first_then_what_can_be_recorded() -> None:
    order = sort_properties(EXERCISE.properties)
    assert order[0] is it_equals_the_equation
    kinds = [prop.recordable_check is None for prop in order[3:]]
    assert kinds == sorted(kinds)
    case = next(generate_search_cases(EXERCISE.contract, 0, EXERCISE.slug))
    plain = list(list_checks(EXERCISE.contract, order, PLAIN_EVERY - 1, case))
    assert len(plain) > len(list(list_checks(EXERCISE.contract, order, 0, case)))
    assert all(fitted == case for prop, fitted in plain if prop.transform is identity)


def test_progress_is_reported_in_the_units_of_the_limit() -> None:
    said: list[Event] = []
    cases = [Case(seed=seed) for seed in range(9)]
    drawn = limit_cases(cases, SearchLimit(cases=3), said.append)
    assert list(drawn) == cases[:3]
    assert said == [SearchAdvanced(done, 3) for done in range(3)]
    assert list(limit_cases(cases, SearchLimit(seconds=1e-9))) == []
    assert list(limit_cases(cases, SearchLimit(seconds=60))) == cases


def test_a_prerequisite_that_fails_in_the_search_alone_costs_its_own_points() -> None:
    verdicts = [
        failed(v.property, Case()) if v.property is EXERCISE.prerequisite else v for v in passed()
    ]
    assert sum(award_points(EXERCISE, verdicts, None)) == 0
    earned = award_points(EXERCISE, verdicts, None, {EXERCISE.prerequisite})
    assert earned.count(0) == 1


def test_hidden_claims_are_withheld_from_what_is_told_of_a_search() -> None:
    record = SubmissionRecord(
        "a.py", "a", "causal_attention", "A", 1, 2, "failed", 1,
        search=SearchRecord(57, ("shown", "secret"), ""),
    )  # fmt: skip
    told = redact_submission(record, Feedback(hidden=frozenset({"secret"})))
    assert told.search == SearchRecord(0, ("shown",), "")
    assert redact_submission(record, Feedback(FeedbackLevel.NAME)).search == record.search


# ------------------------------------------------------------------------------ the limit


@pytest.mark.parametrize(
    ("given", "meant", "shown"),
    [
        ("200", SearchLimit(cases=200), "200"),
        (" 30s ", SearchLimit(seconds=30), "30s"),
        ("0.5 s", SearchLimit(seconds=0.5), "0.5s"),
    ],
)
def test_a_limit_is_a_number_of_cases_or_of_seconds(
    given: str, meant: SearchLimit, shown: str
) -> None:
    assert parse_search(given) == meant
    assert str(meant) == shown


@pytest.mark.parametrize("given", ["", "x", "-3", "3m", "1e3", "30ss", "s", "٣", "nan", "inf s"])
def test_what_is_no_limit_is_said_to_be_none(given: str) -> None:
    with pytest.raises(BadSearch, match=r"neither a number of cases, such as 200, nor of seconds"):
        parse_search(given)


@pytest.mark.parametrize("given", ["0", "0s", "1000001", "86401s", "9" * 400, "9" * 400 + "s"])
def test_a_limit_out_of_range_says_the_range(given: str) -> None:
    with pytest.raises(BadSearch, match="out of range: 1 to 1000000 cases, or more than 0 and up"):
        parse_search(given)
