"""Numbers for pictures: those of the first failure of each kind, true, few, and in no one's way."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from exercises import BY_SLUG
from exercises.answers import find_answer
from grader.judging.evidence import FEWEST, MOST, WIDEST, cases, influence, pictured, weights
from grader.judging.subject import of_namespace
from grader.report import Evidence, PropertyRecord, WeightsEvidence
from properties.case import Case, MaskForm
from properties.contract import Trait
from properties.diagnosis import Finding
from properties.property import Group, Property, Verdict
from properties.trial import Bench
from properties.violation import Kind, Status, SubmissionFailed, Violation
from reference.misconceptions import CATALOGUE
from reference.recipe import RIGHT, Recipe

CASE = Case(batch=2, tokens=5, context_length=6, d_in=4, heads=2, head_dim=3, sharpness=2, seed=3)
BY_NAME = {each.name: each for each in CATALOGUE}


def bench(slug: str, answer: str = "") -> Bench:
    exercise = BY_SLUG[slug]
    source = find_answer(exercise, answer).source if answer else exercise.solution
    namespace: dict[str, Any] = {"__name__": "submission"}
    exec(compile(source, "submission.py", "exec"), namespace)
    return of(slug, namespace)


def of(slug: str, namespace: dict[str, Any]) -> Bench:
    return Bench(of_namespace(namespace), BY_SLUG[slug].contract)


def recipe(name: str) -> Recipe:
    return RIGHT.with_(BY_NAME[name].changes[0])


def trial_of(found: Bench, case: Case = CASE) -> Any:
    return found.fresh(found.contract.fit(case))


def seen_by(slug: str, answer: str, how: Recipe | None = None) -> WeightsEvidence:
    shown = weights(trial_of(bench(slug, answer)), how)
    assert shown is not None
    return shown


# ------------------------------------------------------------------------------------- weights


def test_right_weights_are_not_drawn() -> None:
    for slug in ("causal_attention", "multi_head_attention", "masked_multi_head", "causal_weights"):
        found = bench(slug)
        assert weights(trial_of(found)) is None
        assert weights(trial_of(found), RIGHT) is None


def test_weights_that_are_not_returned_are_recovered() -> None:
    seen = seen_by("multi_head_attention", "no_mask")
    assert (seen.made, seen.of, seen.length) == ("recovered", "weights", 5)
    assert seen.queries == seen.keys == (0, 1, 2, 3, 4)
    for i, (right, got) in enumerate(zip(seen.expected, seen.got, strict=True)):
        assert right[i + 1 :] == (0.0,) * (4 - i)
        assert sum(v or 0 for v in got) == pytest.approx(1)
        assert seen.may_attend[i] == (True,) * (i + 1) + (False,) * (4 - i)
    assert seen.got[0][4] and seen.got[0][4] > 0


def test_a_known_mistake_is_followed_and_gives_the_same() -> None:
    trial = trial_of(bench("multi_head_attention", "no_mask"))
    measured, followed = weights(trial), weights(trial, recipe("no_mask"))
    assert measured is not None and followed is not None
    assert followed.made == "followed"
    assert followed.case == str(trial.case)


def test_weights_that_are_returned_are_those_drawn() -> None:
    seen = seen_by("causal_weights", "second_way_not_masked")
    assert (seen.made, seen.of) == ("returned", "weights_by_masking")


def test_the_head_and_sequence_are_those_most_wrong() -> None:
    trial = trial_of(bench("masked_multi_head"))
    right = trial.expected.outputs[1]
    wrong = right.clone()
    wrong[1, 1, 3] = wrong[1, 1, 3].flip(-1)
    wrong[0, 0, 0, 0] += 0.001
    trial.__dict__["answer"] = (trial.expected.outputs[0], wrong)
    seen = weights(trial)
    assert seen is not None
    assert (seen.made, seen.sequence, seen.head) == ("returned", 1, 1)
    assert seen.got[3] == pytest.approx(wrong[1, 1, 3].tolist(), rel=1e-5)


def test_what_is_no_finite_number_is_none() -> None:
    trial = trial_of(bench("masked_multi_head"))
    wrong = trial.expected.outputs[1].clone()
    wrong[0, 1, 2, 0], wrong[0, 1, 2, 1] = torch.nan, torch.inf
    trial.__dict__["answer"] = (trial.expected.outputs[0], wrong)
    seen = weights(trial)
    assert seen is not None
    assert (seen.sequence, seen.head) == (0, 1)
    assert seen.got[2][:2] == (None, None)


def test_of_a_long_sequence_the_part_that_is_wrong_is_shown() -> None:
    long = replace(CASE, tokens=19, context_length=20)
    trial = trial_of(bench("masked_multi_head"), long)
    wrong = trial.expected.outputs[1].clone()
    wrong[0, 0, 17, 2] += 1
    trial.__dict__["answer"] = (trial.expected.outputs[0], wrong)
    seen = weights(trial)
    assert seen is not None
    assert seen.queries == tuple(range(12, 18)) and seen.keys == tuple(range(MOST))
    assert seen.length == 19
    assert len(seen.got) == len(seen.got[0]) == len(seen.may_attend) == MOST


def test_a_mistake_elsewhere_leaves_the_weights_alone() -> None:
    trial = trial_of(bench("multi_head_attention", "merge_without_transpose"))
    assert weights(trial, recipe("merge_without_transpose")) is None


def test_a_function_without_weights_has_none_to_recover() -> None:
    assert weights(trial_of(bench("simplified_attention"))) is None
    assert weights(trial_of(bench("linear_layer")), RIGHT) is None


def test_weights_of_another_shape_are_not_compared() -> None:
    trial = trial_of(bench("multi_head_attention"))
    assert weights(trial, recipe("heads_and_head_dim_exchanged")) is None


# ----------------------------------------------------------------------------------- influence


def test_right_answers_move_as_they_should() -> None:
    for slug in ("causal_attention", "self_attention_v2", "masked_multi_head"):
        assert influence(trial_of(bench(slug))) is None


def test_outputs_that_see_the_future_move() -> None:
    seen = influence(trial_of(bench("causal_attention", "no_mask")))
    assert seen is not None
    assert seen.got == ((True,) * 5,) * 5
    assert seen.may == seen.expected
    assert seen.may[0] == (True, False, False, False, False)


def test_outputs_that_see_too_little_stay() -> None:
    stuck = influence(trial_of(bench("self_attention_v2", "returns_values")))
    assert stuck is not None
    assert stuck.got == tuple(tuple(i == j for j in range(5)) for i in range(5))


def test_a_mask_that_was_handed_in_says_what_may_move() -> None:
    masked = replace(CASE, mask_form=MaskForm.BATCH_HEAD_QUERY_KEY)
    trial = trial_of(bench("masked_multi_head"), masked)
    seen = influence(trial)
    assert seen is None
    ignoring = trial_of(bench("masked_multi_head", "mask_ignored"), masked)
    seen = influence(ignoring)
    assert seen is not None
    assert not all(all(row) for row in seen.may) and all(all(row) for row in seen.got)


def test_of_what_changes_by_itself_nothing_is_told() -> None:
    class Counting(nn.Module):
        def __init__(self, d_in: int, d_out: int, qkv_bias: bool = False) -> None:
            super().__init__()
            self.W_query, self.W_key, self.W_value = (
                nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3)
            )

        def forward(self, x: Tensor) -> Tensor:
            value: Tensor = self.W_value(x)
            self.calls = getattr(self, "calls", 0) + 1
            return value * self.calls

    assert influence(trial_of(of("self_attention_v2", {"SelfAttention_v2": Counting}))) is None


def test_one_token_moves_nobody() -> None:
    trial = trial_of(bench("causal_attention", "no_mask"), replace(CASE, tokens=1))
    assert influence(trial) is None


# --------------------------------------------------------------------------------------- cases


def test_a_picture_has_as_many_tokens_as_can_be_looked_at() -> None:
    contract = BY_SLUG["causal_attention"].contract
    for tokens, shown in ((1, FEWEST), (2, FEWEST), (5, 5), (40, MOST)):
        case = contract.fit(replace(CASE, tokens=tokens, context_length=tokens))
        first, *_ = cases(contract, case)
        assert first.tokens == shown <= first.context_length


def test_a_large_module_is_not_made_again() -> None:
    contract = BY_SLUG["gpt2_size"].contract
    case = contract.fit(CASE)
    assert case.d_out > WIDEST and cases(contract, case) == ()


# ------------------------------------------------------------------------------------ together


def claim(name: str, group: Group) -> Property:
    return Property(name, name, group, judge=lambda trial: None)


def broken(name: str, group: Group, kind: Kind = Kind.VALUE) -> Verdict:
    violation = Violation(kind, "1", "2")
    return Verdict(claim(name, group), Status.FAILED, 1, SMALL, violation=violation)


SMALL = Case(tokens=2, context_length=2, d_in=2, heads=2, head_dim=2)
VERDICTS = (
    Verdict(claim("made", Group.CONTRACT), Status.PASSED),
    broken("shape", Group.CONTRACT, Kind.SHAPE),
    broken("finite", Group.VALUES, Kind.SHAPE),
    broken("equal", Group.VALUES),
    broken("equal too", Group.VALUES),
    broken("future", Group.MASK),
    broken("prefix", Group.MASK),
)


def drawn(found: Bench, *named: str, verdicts: Sequence[Verdict] = VERDICTS) -> dict[str, Evidence]:
    records = [PropertyRecord(v.property.name, "", "", "", 0, 0) for v in verdicts]
    findings = [Finding(BY_NAME[name], 5, 5, recipe=recipe(name)) for name in named]
    shown = pictured(records, verdicts, found, findings)
    assert [r.name for r in shown] == [r.name for r in records]
    return {r.name: r.evidence for r in shown if r.evidence is not None}


def test_the_first_failure_of_each_kind_is_drawn() -> None:
    found = drawn(bench("multi_head_attention", "no_mask"))
    assert set(found) == {"equal", "future"}
    assert found["equal"].weights and not found["equal"].influence
    assert found["future"].influence and not found["future"].weights


def test_one_claim_can_have_all() -> None:
    only = drawn(bench("multi_head_attention", "no_mask"), verdicts=[broken("future", Group.MASK)])
    assert only["future"].weights and only["future"].influence


def test_a_named_mistake_in_reshaping_is_drawn() -> None:
    name = "split_without_transpose"
    found = drawn(bench("multi_head_attention", name), name)
    assert [layout.step for layout in found["equal"].layouts] == ["split"]


def test_nothing_is_drawn_of_what_passed_crashed_or_has_another_form() -> None:
    crashed = Verdict(
        claim("crashed", Group.VALUES),
        Status.CRASHED,
        1,
        SMALL,
        failure=SubmissionFailed(Status.CRASHED, "ValueError"),
    )
    others = [*VERDICTS[:3], crashed, broken("precise", Group.PRECISION)]
    assert drawn(bench("multi_head_attention", "no_mask"), verdicts=others) == {}


def test_a_submission_that_fails_now_has_no_picture() -> None:
    assert drawn(of("multi_head_attention", {})) == {}

    class Bad(nn.Module):
        def __init__(self, *arguments: object, **named: object) -> None:
            raise SystemExit

    assert drawn(of("multi_head_attention", {"MultiHeadAttention": Bad})) == {}


def test_pictures_leave_no_notes() -> None:
    found = bench("multi_head_attention", "no_mask")
    before = dict(found.notes)
    assert drawn(found)
    assert found.notes == before


def test_a_picture_is_the_same_every_time() -> None:
    one, other = (drawn(bench("causal_attention", "masked_after_softmax")) for _ in range(2))
    assert one == other != {}


def test_the_contracts_that_are_drawn_know_their_tokens() -> None:
    assert not BY_SLUG["causal_weights"].contract.has(Trait.TOKENS)
    assert influence(trial_of(bench("causal_weights"))) is None
