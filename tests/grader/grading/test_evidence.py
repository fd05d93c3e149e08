"""Numbers for pictures: those of the first failure of each kind, true, few, and in no one's way."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader.grading.evidence import (
    MAX_MEASURED_TOKENS,
    MAX_TOKENS,
    MAX_WIDTH,
    MIN_TOKENS,
    attach_evidence,
    choose_cases,
    measure_influence,
    measure_weights,
)
from headcheck.grader.report.records import EvidenceRecord, PropertyRecord, WeightsEvidence
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.harness.case_context import CaseContext
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import DETERMINISTIC
from headcheck.properties.mistakes.pipeline import CORRECT, Pipeline
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.property import Property, PropertyGroup, Verdict
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.properties.violations.violation import (
    Status,
    SubmissionFailed,
    Violation,
    ViolationKind,
)
from tests.submissions import load_source

CASE = Case(batch=2, tokens=5, context_length=6, d_in=4, heads=2, head_dim=3, sharpness=2, seed=3)
BY_NAME = {each.name: each for each in DETERMINISTIC}


def harness(slug: str, answer: str = "") -> Harness:
    exercise = BY_SLUG[slug]
    source = find_answer(exercise, answer).source if answer else exercise.solution
    return load_source(source, exercise.contract)


def of(slug: str, namespace: dict[str, Any]) -> Harness:
    return Harness(make_subject(namespace), BY_SLUG[slug].contract)


def recipe(name: str) -> Pipeline:
    return CORRECT.override(BY_NAME[name].variants[0])


def context_of(found: Harness, case: Case = CASE) -> Any:
    return found.create_context(found.contract.fit(case))


def seen_by(slug: str, answer: str, how: Pipeline | None = None) -> WeightsEvidence:
    shown = measure_weights(context_of(harness(slug, answer)), how)
    assert shown is not None
    return shown


# ------------------------------------------------------------------------------------- weights


def test_right_weights_are_not_drawn() -> None:
    for slug in ("causal_attention", "multi_head_attention", "masked_multi_head", "causal_weights"):
        found = harness(slug)
        assert measure_weights(context_of(found)) is None
        assert measure_weights(context_of(found), CORRECT) is None


def test_weights_that_are_not_returned_are_recovered() -> None:
    seen = seen_by("multi_head_attention", "no_mask")
    assert (seen.made, seen.of, seen.length) == ("recovered", "weights", 5)
    assert seen.queries == seen.keys == (0, 1, 2, 3, 4)
    for i, (right, got) in enumerate(zip(seen.expected, seen.got, strict=True)):
        assert right[i + 1 :] == (0.0,) * (4 - i)
        assert sum(v or 0 for v in got) == pytest.approx(1)
        assert seen.may_attend[i] == (True,) * (i + 1) + (False,) * (4 - i)
    assert seen.got[0][4] and seen.got[0][4] > 0


def test_followed_mistake_reproduces_the_answer() -> None:
    context = context_of(harness("multi_head_attention", "no_mask"))
    measured, followed = measure_weights(context), measure_weights(context, recipe("no_mask"))
    assert measured is not None and followed is not None
    assert followed.made == "followed"
    assert followed.case == str(context.case)


def test_weights_that_are_returned_are_those_drawn() -> None:
    seen = seen_by("causal_weights", "second_way_not_masked")
    assert (seen.made, seen.of) == ("returned", "weights_by_masking")


def test_the_head_and_sequence_are_those_most_wrong() -> None:
    context = context_of(harness("masked_multi_head"))
    right = context.expected.outputs[1]
    wrong = right.clone()
    wrong[1, 1, 3] = wrong[1, 1, 3].flip(-1)
    wrong[0, 0, 0, 0] += 0.001
    context._memo[CaseContext.run] = (context.expected.outputs[0], wrong)
    seen = measure_weights(context)
    assert seen is not None
    assert (seen.made, seen.sequence, seen.head) == ("returned", 1, 1)
    assert seen.got[3] == pytest.approx(wrong[1, 1, 3].tolist(), rel=1e-5)


def test_non_finite_numbers_become_none() -> None:
    context = context_of(harness("masked_multi_head"))
    wrong = context.expected.outputs[1].clone()
    wrong[0, 1, 2, 0], wrong[0, 1, 2, 1] = torch.nan, torch.inf
    context._memo[CaseContext.run] = (context.expected.outputs[0], wrong)
    seen = measure_weights(context)
    assert seen is not None
    assert (seen.sequence, seen.head) == (0, 1)
    assert seen.got[2][:2] == (None, None)


def test_long_sequence_shows_the_wrong_part() -> None:
    long = replace(CASE, tokens=19, context_length=20)
    context = context_of(harness("masked_multi_head"), long)
    wrong = context.expected.outputs[1].clone()
    wrong[0, 0, 17, 2] += 1
    context._memo[CaseContext.run] = (context.expected.outputs[0], wrong)
    seen = measure_weights(context)
    assert seen is not None
    assert seen.queries == tuple(range(12, 18)) and seen.keys == tuple(range(MAX_TOKENS))
    assert seen.length == 19
    assert len(seen.got) == len(seen.got[0]) == len(seen.may_attend) == MAX_TOKENS


def test_a_mistake_elsewhere_leaves_the_weights_alone() -> None:
    context = context_of(harness("multi_head_attention", "merge_without_transpose"))
    assert measure_weights(context, recipe("merge_without_transpose")) is None


def test_a_function_without_weights_has_none_to_recover() -> None:
    assert measure_weights(context_of(harness("simplified_attention"))) is None
    assert measure_weights(context_of(harness("linear_layer")), CORRECT) is None


def test_weights_of_another_shape_are_not_compared() -> None:
    context = context_of(harness("multi_head_attention"))
    assert measure_weights(context, recipe("heads_and_head_dim_exchanged")) is None


# ----------------------------------------------------------------------------------- influence


def test_right_answers_move_as_they_should() -> None:
    for slug in ("causal_attention", "self_attention_v2", "masked_multi_head"):
        assert measure_influence(context_of(harness(slug))) is None


def test_outputs_that_see_the_future_move() -> None:
    seen = measure_influence(context_of(harness("causal_attention", "no_mask")))
    assert seen is not None
    assert seen.got == ((True,) * 5,) * 5
    assert seen.may == seen.expected
    assert seen.may[0] == (True, False, False, False, False)


def test_outputs_that_see_too_little_stay() -> None:
    stuck = measure_influence(context_of(harness("self_attention_v2", "returns_values")))
    assert stuck is not None
    assert stuck.got == tuple(tuple(i == j for j in range(5)) for i in range(5))


def test_a_mask_that_was_handed_in_says_what_may_move() -> None:
    masked = replace(CASE, mask_form=MaskForm.BATCH_HEAD_QUERY_KEY)
    context = context_of(harness("masked_multi_head"), masked)
    seen = measure_influence(context)
    assert seen is None
    ignoring = context_of(harness("masked_multi_head", "mask_ignored"), masked)
    seen = measure_influence(ignoring)
    assert seen is not None
    assert not all(all(row) for row in seen.may) and all(all(row) for row in seen.got)


class Projected(nn.Module):
    """An answer to `self_attention_v2` that returns its values."""

    def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
        super().__init__()
        self.W_query, self.W_key, self.W_value = (
            nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3)
        )
        self.calls, self.first = 0, torch.empty(0)

    def forward(self, x: Tensor) -> Tensor:
        self.calls, self.first = self.calls + 1, self.first if self.calls else x
        value: Tensor = self.W_value(x)
        return value


def test_nondeterministic_answer_gives_no_evidence() -> None:
    class Counting(Projected):
        def forward(self, x: Tensor) -> Tensor:
            return super().forward(x) * self.calls

    found = of("self_attention_v2", {"SelfAttention_v2": Counting})
    assert measure_influence(context_of(found)) is None


def test_what_is_no_number_neither_moves_nor_stays() -> None:
    """It is not said of NaN that it "did not move"."""

    class Fussy(Projected):
        def forward(self, x: Tensor) -> Tensor:
            value = super().forward(x)
            return value if torch.equal(x, self.first) else value * torch.nan

    found = of("self_attention_v2", {"SelfAttention_v2": Fussy})
    with pytest.raises(Violation, match="a finite number"):
        measure_influence(context_of(found))


def test_single_token_moves_no_output() -> None:
    context = context_of(harness("causal_attention", "no_mask"), replace(CASE, tokens=1))
    assert measure_influence(context) is None


# --------------------------------------------------------------------------------------- cases


def test_a_picture_has_as_many_tokens_as_can_be_looked_at() -> None:
    contract = BY_SLUG["causal_attention"].contract
    for tokens, shown in ((1, MIN_TOKENS), (2, MIN_TOKENS), (5, 5), (40, MAX_TOKENS)):
        case = contract.fit(replace(CASE, tokens=tokens, context_length=tokens))
        first, *_ = choose_cases(contract, case)
        assert first.tokens == shown <= first.context_length


def test_a_long_sequence_is_cut() -> None:
    contract = BY_SLUG["causal_attention"].contract
    for tokens in (MAX_MEASURED_TOKENS, MAX_MEASURED_TOKENS + 1, 1025):
        case = contract.fit(replace(CASE, tokens=tokens, context_length=tokens))
        *_, last = choose_cases(contract, case)
        assert (last.tokens, last.context_length) == (MAX_MEASURED_TOKENS, tokens)


def test_large_module_is_not_rebuilt() -> None:
    contract = BY_SLUG["gpt2_size"].contract
    case = contract.fit(CASE)
    assert case.d_out > MAX_WIDTH and choose_cases(contract, case) == ()


# ------------------------------------------------------------------------------------ together


def claim(name: str, group: PropertyGroup) -> Property:
    return Property(name, name, group, check=lambda context: None)


def broken(name: str, group: PropertyGroup, kind: ViolationKind = ViolationKind.VALUE) -> Verdict:
    violation = Violation(kind, "1", "2")
    return Verdict(claim(name, group), Status.FAILED, 1, SMALL, violation=violation)


SMALL = Case(tokens=2, context_length=2, d_in=2, heads=2, head_dim=2)
VERDICTS = (
    Verdict(claim("made", PropertyGroup.CONTRACT), Status.PASSED),
    broken("shape", PropertyGroup.CONTRACT, ViolationKind.SHAPE),
    broken("finite", PropertyGroup.VALUES, ViolationKind.SHAPE),
    broken("equal", PropertyGroup.VALUES),
    broken("equal too", PropertyGroup.VALUES),
    broken("future", PropertyGroup.MASK),
    broken("prefix", PropertyGroup.MASK),
)


def drawn(
    found: Harness, *named: str, verdicts: Sequence[Verdict] = VERDICTS
) -> dict[str, EvidenceRecord]:
    records = [PropertyRecord(v.property.name, "", "", "", 0, 0) for v in verdicts]
    findings = [DiagnosedMistake(BY_NAME[name], 5, 5, ways=((recipe(name),),)) for name in named]
    shown = attach_evidence(records, verdicts, found, findings)
    assert [r.name for r in shown] == [r.name for r in records]
    return {r.name: r.evidence for r in shown if r.evidence is not None}


def test_the_first_failure_of_each_kind_is_drawn() -> None:
    found = drawn(harness("multi_head_attention", "no_mask"))
    assert set(found) == {"equal", "future"}
    assert found["equal"].weights and not found["equal"].influence
    assert found["future"].influence and not found["future"].weights


def test_one_property_can_have_every_kind_of_evidence() -> None:
    only = drawn(
        harness("multi_head_attention", "no_mask"), verdicts=[broken("future", PropertyGroup.MASK)]
    )
    assert only["future"].weights and only["future"].influence


def test_diagnosed_reshaping_mistake_is_drawn() -> None:
    name = "split_without_transpose"
    found = drawn(harness("multi_head_attention", name), name)
    assert [layout.step for layout in found["equal"].layouts] == ["split"]


def test_no_evidence_for_passed_crashed_or_malformed_answers() -> None:
    crashed = Verdict(
        claim("crashed", PropertyGroup.VALUES),
        Status.CRASHED,
        1,
        SMALL,
        failure=SubmissionFailed(Status.CRASHED, "ValueError"),
    )
    others = [*VERDICTS[:3], crashed, broken("precise", PropertyGroup.PRECISION)]
    assert drawn(harness("multi_head_attention", "no_mask"), verdicts=others) == {}


def test_a_submission_that_fails_now_has_no_picture() -> None:
    assert drawn(of("multi_head_attention", {})) == {}

    class Bad(nn.Module):
        def __init__(self, *arguments: object, **named: object) -> None:
            raise SystemExit

    assert drawn(of("multi_head_attention", {"MultiHeadAttention": Bad})) == {}


def test_pictures_leave_no_notes() -> None:
    found = harness("multi_head_attention", "no_mask")
    before = dict(found.notes)
    assert drawn(found)
    assert found.notes == before


def test_a_picture_is_the_same_every_time() -> None:
    one, other = (drawn(harness("causal_attention", "masked_after_softmax")) for _ in range(2))
    assert one == other != {}


def test_drawn_contracts_have_tokens() -> None:
    assert not BY_SLUG["causal_weights"].contract.has(Capability.TOKENS)
    assert measure_influence(context_of(harness("causal_weights"))) is None
