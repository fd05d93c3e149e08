"""Points are rounded by one rule, and can be awarded again from what is stored."""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headcheck.exercises import BY_SLUG
from headcheck.grader.report.points import (
    Points,
    award_points,
    compute_maximum,
    distribute_points,
    score_again,
)
from headcheck.grader.report.records import (
    ErrorRecord,
    PropertyRecord,
    SearchRecord,
    SubmissionRecord,
)
from headcheck.grader.report.rounding import (
    HUNDREDTH,
    explain_bad_step,
    format_number,
    round_points,
    round_sum,
    share_out,
)
from headcheck.properties.property import PropertyGroup, Verdict
from headcheck.properties.violations.violation import Status

EXERCISE = BY_SLUG["causal_attention"]
POINTS = {EXERCISE.slug: {"values": 70.0, "contract": 1 / 3}}


@pytest.mark.parametrize(
    ("points", "most", "step", "rounded"),
    [
        (2 / 3, 1, 0.01, 0.67),
        (2.675, 5, 0.01, 2.68),
        (0.1 + 0.2, 0.3, 0.01, 0.3),
        (17.25, 20, 0.5, 17.5),
        (17.24, 20, 0.5, 17.0),
        (17.5, 20, 1, 18.0),
        (19.999, 20, 0.01, 19.99),
        (19.9, 20, 1, 19.0),
        (20.0, 20, 1, 20.0),
        (20.25, 20.25, 0.5, 20.25),
        (20.2, 20.25, 0.5, 20.0),
        (33.3333333333333, 33.3333333333334, 0.01, 33.33),
        (3.0, 5, 10, 0.0),
        (5.0, 5, 10, 5.0),
        (0.0, 5, 0.5, 0.0),
        (0.0, 0, 0.5, 0.0),
    ],
)
def test_points_are_rounded_to_the_nearest_step_and_never_up_to_all(
    points: float, most: float, step: float, rounded: float
) -> None:
    assert round_points(points, most, step) == rounded


@given(most=st.floats(0.01, 1000), share=st.floats(0, 1), hundredths=st.integers(1, 1000))
def test_a_rounded_score_is_a_multiple_below_the_maximum(
    most: float, share: float, hundredths: int
) -> None:
    step = hundredths * HUNDREDTH
    points = most * share
    rounded = round_points(points, most, step)
    if rounded == round_sum(most):
        assert points >= most - 1e-6 or round_sum(most) < most
    else:
        assert abs(rounded / step - round(rounded / step)) < 1e-6
        assert 0 <= rounded < most
        assert abs(rounded - points) <= step
    # A maximum that was rounded down is no maximum any more.
    again = round_points(rounded, most, step)
    assert again == pytest.approx(rounded) or rounded == round_sum(most) < most


@pytest.mark.parametrize("step", [0.01, 0.05, 0.25, 0.5, 1, 2.5, 10])
def test_scores_can_be_rounded_to(step: float) -> None:
    assert explain_bad_step(step) is None


@pytest.mark.parametrize("step", [0, -1, 0.001, 0.125, 1e9, float("nan"), float("inf")])
def test_scores_cannot_be_rounded_to(step: float) -> None:
    assert "hundredths of a point" in str(explain_bad_step(step))


POINTS_OF_CHECKS = st.floats(0, 50, allow_subnormal=False)  # shares of these have few digits


@given(st.lists(POINTS_OF_CHECKS, max_size=30), st.integers(0, 5000))
def test_shares_add_up_to_what_is_shared(points: list[float], hundredths: int) -> None:
    total = hundredths * HUNDREDTH if sum(points) else 0.0
    shares = share_out(points, round_sum(total))
    assert len(shares) == len(points)
    assert sum(shares) == pytest.approx(total, abs=1e-9)
    assert all(share >= 0 and share == round_sum(share) for share in shares)


def test_a_number_of_points_has_two_decimals_at_most() -> None:
    shown = [format_number(x) for x in (0.0, -0.0, 100.0, 1e-7, 0.1 + 0.2, 33.335, 1e6, -0.001)]
    assert shown == ["0", "0", "100", "0", "0.3", "33.34", "1000000", "0"]


# ---------------------------------------------------------------------------- again


def judged(failing: set[str], search: SearchRecord | None = None) -> SubmissionRecord:
    """A record as the grader makes it, of an answer that fails these."""
    known = dict.fromkeys(failing, Status.FAILED)
    verdicts = [Verdict(p, known.get(p.name, Status.PASSED)) for p in EXERCISE.properties]
    found = {v.property for v in verdicts if search and v.property.name in search.found}
    worth = distribute_points(EXERCISE, None)
    earned = award_points(EXERCISE, verdicts, None, found)
    claims = tuple(
        PropertyRecord(p.name, p.claim, p.group, v.status, got, worth[p])
        for p, v, got in zip(EXERCISE.properties, verdicts, earned, strict=True)
    )
    return SubmissionRecord(
        "a.py", "a", EXERCISE.slug, "A", 0.0, 0.0, "failed", 0.5, claims, search=search
    )


@pytest.mark.parametrize(
    ("failing", "found"),
    [
        (set(), ()),
        ({"it_attends"}, ()),
        ({"it_attends"}, ("it_attends",)),
        ({"it_equals_the_equation"}, ()),
        ({"the_future_is_invisible", "bfloat16_runs"}, ("the_future_is_invisible",)),
        ({"bfloat16_runs"}, ()),
    ],
)
def test_points_awarded_again_are_those_of_the_grader(
    failing: set[str], found: tuple[str, ...]
) -> None:
    record = judged(failing, SearchRecord(5, found) if found else None)
    same = score_again(record, EXERCISE, None, HUNDREDTH)
    assert same.properties == record.properties
    again = score_again(record, EXERCISE, POINTS, 0.5)
    assert [p.status for p in again.properties] == [p.status for p in record.properties]
    assert score_again(again, EXERCISE, None, HUNDREDTH) == same
    values = sum(p.max_points for p in again.properties if p.group == "values")
    assert values == pytest.approx(70)
    assert again.max_score == compute_maximum(EXERCISE, POINTS)
    assert again.score == again.max_score if not failing else again.score % 0.5 == 0
    assert (again.score == 0) is ("it_attends" in failing and not found)


def award_for_cache(broken: str, untried: str) -> float:
    exercise = BY_SLUG["kv_cache"]
    known = {broken: Status.FAILED, untried: Status.NOT_TRIED}
    verdicts = [Verdict(p, known.get(p.name, Status.PASSED)) for p in exercise.properties]
    earned = award_points(exercise, verdicts, None)
    pairs = zip(verdicts, earned, strict=True)
    return sum(got for v, got in pairs if v.property.group == "cache")


def test_what_is_essential_and_not_tried_for_another_group_s_sake_decides_nothing() -> None:
    kept = "kept_keys_and_values_are_not_computed_again"
    assert award_for_cache(kept, "") == 0
    assert award_for_cache("it_equals_the_equation", kept) == pytest.approx(80 * 8 / 9)
    assert award_for_cache("one_token_at_a_time_gives_the_same_output", kept) == 0


@pytest.mark.parametrize(
    "broken",
    [
        "several_tokens_at_a_time_give_the_same_output",
        "sequences_keep_their_caches_apart",
        "a_call_without_a_cache_begins_anew",
    ],
)
def test_a_cache_that_gives_other_outputs_in_some_calls_is_worth_nothing(broken: str) -> None:
    assert award_for_cache(broken, "") == 0
    assert award_for_cache("a_cache_can_be_continued_twice", "") == pytest.approx(80 * 8 / 9)


def award(failed: set[str], untried: set[str], points: Points | None = None) -> dict[str, float]:
    """The points of the groups of an answer that fails these, and was not tried on those."""
    known = dict.fromkeys(untried, Status.NOT_TRIED) | dict.fromkeys(failed, Status.FAILED)
    verdicts = [Verdict(p, known.get(p.name, Status.PASSED)) for p in EXERCISE.properties]
    groups: dict[str, float] = {}
    for verdict, got in zip(verdicts, award_points(EXERCISE, verdicts, points), strict=True):
        groups[verdict.property.group] = groups.get(verdict.property.group, 0) + got
    return groups


def members(group: str) -> list[str]:
    return [p.name for p in EXERCISE.properties if p.group == group]


def test_what_is_not_tried_for_a_peculiarity_s_sake_counts_as_the_rest_of_its_group() -> None:
    whole = award(set(), set())
    untried = {"what_was_trained_is_used", "a_copy_is_trained_by_itself"}
    assert award({"a_batch_of_one_stays_a_batch"}, untried)["gradients"] == whole["gradients"]
    others = len(members("gradients")) - 2
    got = award({"a_batch_of_one_stays_a_batch", "every_weight_gets_a_gradient"}, untried)
    assert got["gradients"] == pytest.approx(whole["gradients"] * (others - 1) / others)


def test_of_values_that_are_wrong_in_float32_nothing_counts() -> None:
    assert award({"float32_gives_the_equation_too"}, set())["values"] == 0
    assert award({"float32_is_exact_to_float32"}, set())["values"] == award(set(), set())["values"]


def test_what_needs_the_equation_is_lost_with_it() -> None:
    got = award({"it_equals_the_equation"}, {"the_gradient_of_the_input_is_right"})
    assert got["values"] == 0
    assert got["gradients"] == pytest.approx(10 - 10 / len(members("gradients")))


def test_what_needs_registered_weights_is_lost_with_them() -> None:
    untried = {"a_training_step_moves_every_weight"}
    got = award({"the_weights_are_registered_and_trainable"}, untried)
    assert got["gradients"] == pytest.approx(10 - 10 / len(members("gradients")))
    repaired_first = {"training_drops_again_after_an_evaluation"}
    assert award(repaired_first, untried)["gradients"] == 10


def test_a_group_without_points_costs_nothing_in_others() -> None:
    broken = {"dropout_acts_on_the_attention_weights"}
    untried = {"the_gradients_in_training_are_right", "gradients_add_up_over_calls"}
    unpaid = {EXERCISE.slug: {"dropout": 0.0}}
    assert award(broken, untried)["gradients"] < award(set(), set())["gradients"]
    assert award(broken, untried, unpaid) == award(set(), set(), unpaid)


def test_right_values_stand_for_attention_that_could_not_be_tried() -> None:
    """They do so only where it was not tried, and where they are known to be right."""
    irregular, attends, equals = "evaluation_is_repeatable", "it_attends", "it_equals_the_equation"
    assert award({irregular}, {attends})["values"] > 0
    for failed, untried in (
        ({irregular, attends}, set[str]()),
        ({irregular, equals}, {attends}),
        ({irregular}, {attends, equals}),
    ):
        assert sum(award(failed, untried).values()) == 0


def test_a_peculiarity_does_not_hide_that_there_is_no_dropout() -> None:
    untried = set(members("dropout")) - {"evaluation_ignores_dropout"}
    got = award({"a_batch_of_one_stays_a_batch"}, untried)
    assert got["dropout"] == 0  # its essential claim was not tried


def test_what_torch_does_not_support_earns_nothing() -> None:
    got = award(set(), {"float16_is_as_exact_as_plain_torch"})
    assert got["precision"] < award(set(), set())["precision"]


def test_a_claim_about_a_peculiarity_counts_for_two() -> None:
    worth = {p.name: points for p, points in distribute_points(EXERCISE, None).items()}
    assert worth["the_biases_follow_the_option"] == 2 * worth["it_equals_the_equation"]


def test_what_was_not_judged_is_of_as_many_points_as_an_answer() -> None:
    error = ErrorRecord("not_found", "nothing")
    record = SubmissionRecord("a", "a", EXERCISE.slug, None, 0.0, 1.0, "not_tried", 0, error=error)
    again = score_again(record, EXERCISE, POINTS, 1)
    assert again == replace(record, max_score=compute_maximum(EXERCISE, POINTS))
    assert score_again(record, None, POINTS, 1) == record


def test_of_a_class_judged_as_what_it_is_only_rounding_is_new() -> None:
    record = replace(judged({"bfloat16_runs"}), exercise="attention")
    again = score_again(record, None, None, 1)
    assert again.properties == record.properties
    assert again.score == int(again.score) < again.max_score


def test_what_was_not_asked_earns_the_share_that_was_asked() -> None:
    verdicts = [Verdict(prop, Status.PASSED) for prop in EXERCISE.properties]
    full = award_points(EXERCISE, verdicts, None)
    for number, verdict in enumerate(verdicts):
        for asked in (0.0, 0.25):
            late = replace(verdict, status=Status.NOT_ASKED, asked=asked)
            others = [*verdicts[:number], late, *verdicts[number + 1 :]]
            earned = award_points(EXERCISE, others, None)
            assert earned[number] == pytest.approx(full[number] * asked * (earned[number] > 0))
            assert sum(earned) <= sum(full) - full[number] * (1 - asked) + 1e-9


def test_a_group_that_was_hardly_asked_earns_at_most_its_share() -> None:
    """Checks that could not be tried count like the rest, and most of the rest was not asked."""
    names = {prop.name: prop for prop in EXERCISE.properties}
    group = [p for p in names.values() if p.group is PropertyGroup.GRADIENTS]
    verdicts = [Verdict(prop, Status.PASSED) for prop in names.values() if prop not in group]
    first, second, *rest = group
    few = [Verdict(first, Status.PASSED), Verdict(second, Status.NOT_TRIED)]
    late = [Verdict(prop, Status.NOT_ASKED, asked=0.0) for prop in rest]
    earned = award_points(EXERCISE, [*verdicts, *few, *late], None)
    whole = EXERCISE.get_points(PropertyGroup.GRADIENTS)
    assert sum(earned[-len(group) :]) <= whole * 2 / len(group)
