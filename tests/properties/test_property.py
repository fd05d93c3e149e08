"""Judging stops at the first violation, tells it on the simplest case, and hides no fault."""

from collections.abc import Callable
from dataclasses import fields, replace

import pytest
import torch
from torch import Tensor, nn

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.case_transforms import at_least, with_values
from headcheck.properties.check import (
    MAX_SEARCHED,
    CounterexampleSearch,
    Searched,
    check_property,
    find_first_failure,
    find_smallest_failure,
    shrink_failure,
)
from headcheck.properties.contracts.case_description import describe_case
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.families import masking, values
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.property import CheckFunction, Property, PropertyFamily, PropertyGroup
from headcheck.properties.terms.case import Case, MemoryLayout
from headcheck.properties.terms.peculiarity import AXIS_OF_ONE
from headcheck.properties.violations.violation import (
    Note,
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)

# No parameters and no module: a judge that looks at the case alone needs no submission.
CONTRACT = Contract(
    name="any",
    capabilities=frozenset(
        {
            Capability.BATCH,
            Capability.HEADS,
            Capability.CONTEXT,
            Capability.BIAS_OPTION,
            Capability.DROPOUT,
            Capability.MASK,
            Capability.STRIDED,
        }
    ),
)
BANK = generate_case_set(CONTRACT, 24)
SMALLEST = Case(tokens=1, context_length=1)
Fault = Callable[[Case], bool]


def nobody() -> Harness:
    return Harness(make_subject({}), CONTRACT)


def claim(judge: CheckFunction, **changes: object) -> Property:
    made = Property("it", "It is right.", PropertyGroup.VALUES, judge, hint="look again")
    return replace(made, **changes)  # type: ignore[arg-type]  # each names a field


def wrong_where(fault: Fault, kind: ViolationKind = ViolationKind.VALUE) -> CheckFunction:
    def judge(context: LiveContext) -> None:
        if fault(context.case):
            raise Violation(kind, "right", f"wrong for {context.case.tokens} tokens")

    return judge


# ------------------------------------------------------------------------------- check


def test_a_property_that_holds_is_tried_on_every_case() -> None:
    seen: list[Case] = []
    verdict = check_property(claim(lambda context: seen.append(context.case)), nobody(), BANK)
    assert (verdict.status, verdict.cases_tried, verdict.case) == (Status.PASSED, 24, None)
    assert tuple(seen) == BANK
    assert verdict.message == ""


def test_checking_stops_at_the_first_violation() -> None:
    seen: list[Case] = []

    def judge(context: LiveContext) -> None:
        seen.append(context.case)
        wrong_where(lambda case: case == BANK[6])(context)

    verdict = check_property(claim(judge), nobody(), BANK)
    assert (verdict.status, verdict.cases_tried) == (Status.FAILED, 7)
    assert tuple(seen[:7]) == BANK[:7]
    assert not set(BANK[7:]) & set(seen)


def test_violation_states_claim_case_and_hint() -> None:
    verdict = check_property(claim(wrong_where(lambda case: case.tokens >= 2)), nobody(), BANK)
    assert verdict.case is not None and verdict.violation is not None
    assert verdict.message == (
        "Fails: It is right.\n"
        "  expected  right\n"
        "  got       wrong for 2 tokens\n"
        f"  on        {describe_case(nobody().contract, verdict.case)}\n"
        "  hint      look again"
    )


def test_a_crash_is_reported_as_it_came_and_on_the_case_at_hand() -> None:
    seen: list[Case] = []

    def judge(context: LiveContext) -> None:
        seen.append(context.case)
        if context.case == BANK[4]:
            raise SubmissionFailed(Status.CRASHED, "it asked for too much", cell=3)

    verdict = check_property(claim(judge), nobody(), BANK)
    assert (verdict.status, verdict.cases_tried, verdict.case) == (Status.CRASHED, 5, BANK[4])
    assert tuple(seen) == BANK[:5]
    assert verdict.violation is None
    assert verdict.message == (
        "Crashed in this check: It is right.\n"
        "  got       it asked for too much (cell 3)\n"
        f"  on        {describe_case(nobody().contract, BANK[4])}"
    )


def test_a_search_that_is_made_again_finds_the_same() -> None:
    harness = nobody()
    failed = find_first_failure(claim(wrong_where(lambda case: case.tokens >= 2)), harness, BANK)
    found, searched = shrink_failure(failed, harness, Searched())
    assert searched.counterexamples and searched.left < MAX_SEARCHED
    again, as_much = shrink_failure(failed, harness, Searched())
    assert (again.case, again.message, as_much) == (found.case, found.message, searched)


@pytest.mark.parametrize("group", PropertyGroup)
def test_a_crash_has_no_hint_of_the_claim_that_was_asked(group: PropertyGroup) -> None:
    def judge(context: LiveContext) -> None:
        raise SubmissionFailed(Status.CRASHED, "it asked for too much")

    verdict = check_property(claim(judge, group=group), nobody(), BANK)
    assert "look again" not in verdict.message + verdict.redacted_message


@pytest.mark.parametrize("fault", [AssertionError("ours"), KeyError("ours"), RuntimeError("ours")])
def test_internal_error_is_never_a_verdict(fault: Exception) -> None:
    def judge(context: LiveContext) -> None:
        raise fault

    with pytest.raises(type(fault), match="ours"):
        check_property(claim(judge), nobody(), BANK)


@pytest.mark.parametrize("broken", [lambda c: c.heads == 1, lambda c: c.d_in < 3, lambda c: True])
def test_internal_error_during_the_search_is_no_verdict(broken: Fault) -> None:
    first = next(case for case in BANK if case.tokens >= 3 and case.heads >= 2 and case.d_in >= 3)

    def judge(context: LiveContext) -> None:
        if context.case != first and broken(context.case):
            raise AssertionError("ours")
        wrong_where(lambda case: case.tokens >= 2)(context)

    with pytest.raises(AssertionError, match="ours"):
        check_property(claim(judge), nobody(), [first])


def test_empty_case_set_passes_without_a_call() -> None:
    verdict = check_property(claim(wrong_where(lambda case: True)), nobody(), ())
    assert (verdict.status, verdict.cases_tried) == (Status.PASSED, 0)


# ---------------------------------------------------------------------------- simplest


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
        verdict = check_property(
            claim(wrong_where(fault)), nobody(), generate_case_set(CONTRACT, 24, seed)
        )
        assert verdict.case is not None
        assert fault(verdict.case)
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
        assert found.case == replace(SMALLEST, dtype=dtype), (
            "where it failed, not where another did"
        )


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
            raise Violation(
                ViolationKind.VALUE if context.case == wrong else ViolationKind.SHAPE,
                "right",
                "wrong",
            )

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


def faulty(hidden: bool = True, merged: bool = True) -> type[nn.Module]:
    """Multi-head attention, without a mask or with its heads merged in the wrong order."""

    class MultiHeadAttention(nn.Module):
        def __init__(
            self,
            d_in: int,
            d_out: int,
            context_length: int,
            dropout: float,
            num_heads: int,
            qkv_bias: bool = False,
        ) -> None:
            super().__init__()
            self.num_heads = num_heads
            self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
            self.out_proj = nn.Linear(d_out, d_out)

        def forward(self, x: Tensor) -> Tensor:
            layers = (self.W_query, self.W_key, self.W_value)
            q, k, v = (
                layer(x).unflatten(-1, (self.num_heads, -1)).transpose(1, 2) for layer in layers
            )
            scores = q @ k.mT / q.shape[-1] ** 0.5
            if hidden:
                later = torch.ones(scores.shape[-2:], dtype=torch.bool).triu(1)
                scores = scores.masked_fill(later, -torch.inf)
            context = scores.softmax(-1) @ v
            if merged:
                context = context.transpose(1, 2)
            output: Tensor = self.out_proj(context.reshape(*x.shape[:2], -1))
            return output

    return MultiHeadAttention


MULTI_HEAD = BY_SLUG["multi_head_attention"]
MULTI_HEAD_BANK = generate_case_set(MULTI_HEAD.contract, 24)


def judged(module: type[nn.Module], wanted: Property) -> Case | None:
    harness = Harness(make_subject({"MultiHeadAttention": module}), MULTI_HEAD.contract)
    return check_property(
        wanted, harness, wanted.select_cases(harness.contract, MULTI_HEAD_BANK)
    ).case


def test_a_module_without_a_mask_fails_on_two_tokens() -> None:
    for wanted in (values.it_equals_the_equation, masking.the_future_is_invisible):
        case = judged(faulty(hidden=False), wanted)
        assert case is not None
        assert (case.batch, case.tokens, case.heads, case.d_in, case.head_dim) == (1, 2, 1, 1, 1)


def test_heads_merged_in_the_wrong_order_fail_on_two_heads() -> None:
    case = judged(faulty(merged=False), values.it_equals_the_equation)
    assert case is not None
    assert (case.batch, case.tokens, case.heads, case.d_in, case.head_dim) == (1, 2, 2, 1, 1)


def test_a_right_module_has_no_case() -> None:
    assert judged(faulty(), values.it_equals_the_equation) is None


# ------------------------------------------------------------------- claims, and choosing


def first_judge(context: CaseContext) -> None:
    """It has a first line.

    And others, which the student does not read.
    """


def test_claim_is_the_first_line_of_the_check_docstring() -> None:
    before = claim(first_judge, name="before")
    also = claim(first_judge, name="also")
    claims = PropertyFamily(PropertyGroup.MASK, (before,))
    made = claims(
        Capability.CAUSAL,
        Capability.TOKENS,
        after=(also,),
        limit=3,
        hint="a hint",
        dtypes=("float32",),
    )(first_judge)
    wanted = Property(
        name="first_judge",
        claim="It has a first line.",
        group=PropertyGroup.MASK,
        check=first_judge,
        recordable_check=first_judge,
        needs=frozenset({Capability.CAUSAL, Capability.TOKENS}),
        requires=(before, also),
        limit=3,
        hint="a hint",
        dtypes=("float32",),
    )
    assert {f.name: getattr(made, f.name) for f in fields(made)} == {
        f.name: getattr(wanted, f.name) for f in fields(wanted)
    }


def test_check_without_a_docstring_has_no_claim() -> None:
    def check(context: CaseContext) -> None:
        pass

    made = PropertyFamily(PropertyGroup.VALUES)()(check)
    assert (made.claim, made.requires, made.needs) == ("", (), frozenset())


def test_check_of_a_live_context_cannot_be_recorded() -> None:
    def check(context: LiveContext) -> None:
        context.adapter.set(context.parameters)

    assert PropertyFamily(PropertyGroup.VALUES)()(check).recordable_check is None


def test_check_must_say_which_context_it_takes() -> None:
    with pytest.raises(TypeError, match="annotate `context` as CaseContext or as LiveContext"):
        PropertyFamily(PropertyGroup.VALUES)()(lambda context: None)


def test_a_property_applies_where_all_it_needs_is_there() -> None:
    asked = claim(first_judge, needs=frozenset({Capability.BATCH, Capability.HEADS}))
    assert asked.applies_to(CONTRACT)
    assert not asked.applies_to(replace(CONTRACT, capabilities=frozenset({Capability.BATCH})))
    assert claim(first_judge).applies_to(replace(CONTRACT, capabilities=frozenset()))


@pytest.mark.parametrize(("limit", "count"), [(24, 24), (30, 24), (12, 12), (8, 8), (1, 1)])
def test_an_expensive_property_is_tried_on_cases_from_small_to_large(
    limit: int, count: int
) -> None:
    chosen = claim(first_judge, limit=limit).select_cases(CONTRACT, BANK)
    assert len(chosen) == count
    assert chosen[-1] == BANK[-1]
    assert chosen == tuple(case for case in BANK if case in chosen)


def test_never_more_cases_are_chosen_than_the_limit() -> None:
    for limit in range(1, 30):
        for count in (0, 1, 5, 23, 24):
            chosen = claim(first_judge, limit=limit).select_cases(CONTRACT, BANK[:count])
            assert len(chosen) <= min(limit, count)
            assert bool(chosen) is bool(count)


def test_cases_that_become_equal_are_checked_once() -> None:
    asked = claim(first_judge, transform=with_values(**dict(vars_of(SMALLEST))))
    assert asked.select_cases(CONTRACT, BANK) == (SMALLEST,)


def vars_of(case: Case) -> list[tuple[str, object]]:
    return [(name, getattr(case, name)) for name in Case.__slots__]
