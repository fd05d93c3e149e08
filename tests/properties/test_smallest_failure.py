"""A failure is shown on the smallest case on which the property fails in the same way."""

from dataclasses import replace

import pytest
from torch import Tensor, nn

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.case_transforms import at_least
from headcheck.properties.check import (
    CounterexampleSearch,
    Searched,
    check_property,
    find_first_failure,
    find_smallest_failure,
    shrink_failure,
)
from headcheck.properties.families import masking, values
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.property import CheckFunction, Property
from headcheck.properties.terms.case import Case, MemoryLayout
from headcheck.properties.terms.peculiarity import AXIS_OF_ONE
from headcheck.properties.violations.violation import (
    Note,
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)
from headcheck.reference import attention_weights
from tests.properties.modules import MultiHeadAttention
from tests.properties.planted import BANK, CONTRACT, SMALLEST, Fault, claim, nobody, wrong_where


@pytest.mark.parametrize(
    ("fault", "minimal"),
    [
        (lambda c: True, {}),
        (lambda c: c.tokens >= 2, {"tokens": 2, "context_length": 2}),
        (lambda c: c.heads >= 2, {"heads": 2}),
        (lambda c: c.tokens >= 3 and c.heads >= 2, {"tokens": 3, "context_length": 3, "heads": 2}),
        (lambda c: c.tokens < c.context_length, {"context_length": 2}),
        (lambda c: c.batch >= 2 and c.head_dim % 2 == 0, {"batch": 2, "head_dim": 2}),
        (lambda c: c.bias and c.d_in >= 2, {"bias": True, "d_in": 2}),
        (lambda c: c.memory is MemoryLayout.TRANSPOSED, {"memory": MemoryLayout.TRANSPOSED}),
        (lambda c: c.d_in > c.d_out, {"d_in": 2}),
    ],
)
def test_planted_fault_is_reported_on_the_smallest_case(
    fault: Fault, minimal: dict[str, object]
) -> None:
    wanted = replace(SMALLEST, **minimal)  # type: ignore[arg-type]  # each names a field
    for seed in range(3):
        bank = generate_case_set(CONTRACT, 24, seed)
        verdict = check_property(claim(wrong_where(fault)), nobody(), bank)
        assert verdict.case is not None and fault(verdict.case)
        # A longest length of two is the default, and as plain as one.
        assert verdict.case.context_length <= max(2, wanted.context_length)
        found = replace(verdict.case, seed=0, context_length=wanted.context_length)
        assert found == wanted


def test_simplest_case_is_transformed_by_the_property() -> None:
    judge = wrong_where(lambda case: True)
    wanted = claim(judge, transform=at_least(tokens=4, heads=3))
    verdict = check_property(wanted, nobody(), wanted.select_cases(CONTRACT, BANK))
    assert verdict.case is not None
    assert (verdict.case.tokens, verdict.case.heads, verdict.case.batch) == (4, 3, 1)


def test_another_kind_of_violation_is_another_fault() -> None:
    def judge(context: LiveContext) -> None:
        wrong_where(lambda case: case.tokens == 1, ViolationKind.SHAPE)(context)
        wrong_where(lambda case: case.tokens >= 3)(context)

    first = next(case for case in BANK if case.tokens >= 5)
    verdict = check_property(claim(judge), nobody(), [first])
    assert verdict.case is not None and verdict.violation is not None
    assert (verdict.case.tokens, verdict.violation.kind) == (3, ViolationKind.VALUE)


def test_a_crash_during_the_search_is_not_the_violation_looked_for() -> None:
    def judge(context: LiveContext) -> None:
        if context.case.heads == 1:
            raise SubmissionFailed(Status.CRASHED, "IndexError: 1")
        wrong_where(lambda case: case.tokens >= 2)(context)

    first = next(case for case in BANK if case.heads >= 3 and case.tokens >= 4)
    verdict = check_property(claim(judge), nobody(), [first])
    assert verdict.status is Status.FAILED
    assert verdict.case is not None
    assert (verdict.case.heads, verdict.case.tokens) == (2, 2)


def test_a_failure_is_shrunk_within_what_it_was_asked_for() -> None:
    """What turns out not to hold after a failure limits the other claims, not its example."""
    broken = claim(wrong_where(lambda case: True))
    first, late = BANK[:1], nobody()
    verdict = find_first_failure(broken, late, first)
    late.unsupported[AXIS_OF_ONE] = broken
    shrunk, _ = shrink_failure(verdict, late, Searched())
    assert shrunk.case == check_property(broken, nobody(), first).case
    early = nobody()
    early.unsupported[AXIS_OF_ONE] = broken
    narrow, _ = shrink_failure(find_first_failure(broken, early, BANK[-1:]), early, Searched())
    assert narrow.case is not None and not AXIS_OF_ONE.is_in(narrow.case)


def test_flaky_violation_is_reported_where_it_occurred() -> None:
    calls: list[Case] = []

    def judge(context: LiveContext) -> None:
        calls.append(context.case)
        if len(calls) % 3 == 1:
            raise Violation(ViolationKind.VALUE, "right", "wrong this time")

    verdict = check_property(claim(judge), nobody(), BANK)
    assert verdict.status is Status.FAILED
    assert verdict.case in calls
    assert verdict.violation is not None and verdict.violation.got == "wrong this time"


def test_unreproducible_violation_is_reported_on_its_case() -> None:
    calls: list[Case] = []

    def judge(context: LiveContext) -> None:
        calls.append(context.case)
        if len(calls) == 3:
            raise Violation(ViolationKind.VALUE, "right", "wrong once")

    verdict = check_property(claim(judge), nobody(), BANK)
    assert (verdict.status, verdict.cases_tried, verdict.case) == (Status.FAILED, 3, BANK[2])


def test_violation_in_another_dtype_is_no_smaller_example() -> None:
    broken, harness = claim(wrong_where(lambda case: True)), nobody()
    searched = Searched()
    for dtype in ("float64", "float32"):
        case = replace(SMALLEST, tokens=3, context_length=3, dtype=dtype)
        failed = find_first_failure(broken, harness, [case])
        found, searched = shrink_failure(failed, harness, searched)
        own = replace(SMALLEST, dtype=dtype)
        assert found.case == own, "where it failed, not where another did"


def test_the_search_is_the_same_every_time() -> None:
    def told() -> tuple[str, int]:
        calls: list[Case] = []

        def judge(context: LiveContext) -> None:
            calls.append(context.case)
            wrong_where(lambda case: case.tokens >= 3 and case.heads >= 2)(context)

        return check_property(claim(judge), nobody(), BANK).message, len(calls)

    assert len({told() for _ in range(5)}) == 1


def test_search_checks_no_case_twice_and_ends() -> None:
    calls: list[Case] = []

    def judge(context: LiveContext) -> None:
        calls.append(context.case)
        wrong_where(lambda case: case.tokens >= 2 and case.d_in >= 2)(context)

    first = BANK[-1]
    violation = Violation(ViolationKind.VALUE, "right", "wrong")
    search = CounterexampleSearch(claim(judge), nobody(), violation.kind)
    find_smallest_failure(search, first, violation)
    assert len(calls) == len(set(calls))
    assert first not in calls
    assert len(calls) < 200


def test_all_searches_on_a_subject_share_a_number_of_cases() -> None:
    tried: list[Case] = []

    def only_on(wrong: Case) -> CheckFunction:
        def judge(context: LiveContext) -> None:
            tried.append(context.case)
            kind = ViolationKind.VALUE if context.case == wrong else ViolationKind.SHAPE
            raise Violation(kind, "right", "wrong")

        return judge

    harness, searched, verdicts = nobody(), Searched(left=200), []
    for case in BANK:
        failed = find_first_failure(claim(only_on(case)), harness, [case])
        verdict, searched = shrink_failure(failed, harness, searched)
        verdicts.append(verdict)
    assert searched.left == 0
    assert len(tried) == 200 + len(BANK)
    assert [verdict.case for verdict in verdicts] == list(BANK), "what failed is told all the same"


def test_notes_made_during_the_search_are_forgotten() -> None:
    first = next(case for case in BANK if case.tokens >= 4)

    def judge(context: LiveContext) -> None:
        context.harness.add_note(Note("seen", f"{context.case.tokens} tokens"))
        wrong_where(lambda case: case.tokens >= 2)(context)

    harness = nobody()
    check_property(claim(judge), harness, [first])
    assert list(harness.notes) == [("seen", f"{first.tokens} tokens")]


# --------------------------------------------------------------------- real modules


class Unmasked(MultiHeadAttention):
    def average(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
        return attention_weights(queries, keys) @ values


class WronglyMerged(MultiHeadAttention):
    def merge(self, context: Tensor) -> Tensor:
        batch, heads, tokens, width = context.shape
        return context.reshape(batch, tokens, heads * width)


MULTI_HEAD = BY_SLUG["multi_head_attention"]
MULTI_HEAD_BANK = generate_case_set(MULTI_HEAD.contract, 24)


def judged(module: type[nn.Module], wanted: Property) -> Case | None:
    harness = Harness(make_subject({"MultiHeadAttention": module}), MULTI_HEAD.contract)
    cases = wanted.select_cases(harness.contract, MULTI_HEAD_BANK)
    return check_property(wanted, harness, cases).case


def test_a_module_without_a_mask_fails_on_two_tokens() -> None:
    for wanted in (values.it_equals_the_equation, masking.the_future_is_invisible):
        case = judged(Unmasked, wanted)
        assert case is not None
        assert (case.batch, case.tokens, case.heads, case.d_in, case.head_dim) == (1, 2, 1, 1, 1)


def test_heads_merged_in_the_wrong_order_fail_on_two_heads() -> None:
    case = judged(WronglyMerged, values.it_equals_the_equation)
    assert case is not None
    assert (case.batch, case.tokens, case.heads, case.d_in, case.head_dim) == (1, 2, 2, 1, 1)


def test_a_right_module_has_no_case() -> None:
    assert judged(MultiHeadAttention, values.it_equals_the_equation) is None
