"""Questions put all at once: the same verdicts as one by one, and nothing believed in vain."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pytest

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, find_answer, load_bank
from headcheck.grader.batch import plan
from headcheck.grader.batch.check import MANY, run_batch_plan, thin_out
from headcheck.grader.batch.message import PLACEHOLDER_NAME, Comparison
from headcheck.grader.batch.plan import compile_batch_plan
from headcheck.grader.grading.attempts import check_all
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.check import find_first_failure
from headcheck.properties.families.batch import each_sequence_is_attended_alone
from headcheck.properties.families.gradients import the_gradient_of_the_input_is_right
from headcheck.properties.families.masking import the_future_is_invisible
from headcheck.properties.families.purity import evaluation_is_repeatable
from headcheck.properties.families.sizes import list_small_sizes
from headcheck.properties.families.values import it_equals_the_equation
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict, check_in_order
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed
from tests.grader.grading.causal import (
    BATCH_PLAN,
    EXERCISE,
    MIXED,
    NAME,
    change_solution,
    compare_answers,
    make_subject,
)

EVERY_QUERY = frozenset[int]().union(*BATCH_PLAN.queries_by_property.values())


def test_solution_answers_every_query_exactly() -> None:
    found = compare_answers(EXERCISE.solution)
    assert found == Comparison(frozenset())
    assert BATCH_PLAN.find_proven(found) == frozenset(BATCH_PLAN.queries_by_property)


def test_large_query_gets_its_own_message(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(plan, "MAX_MESSAGE_NUMEL", 1)
    contract = replace(EXERCISE.contract, name=PLACEHOLDER_NAME)
    claims = dict(list(EXERCISE.plan_cases().items())[:8])
    large = compile_batch_plan(contract, claims)
    assert [len(each.object_batches) for each in large.batches] == [1] * len(large.batches)
    assert large.run_on(make_subject(EXERCISE.solution), NAME) == Comparison(frozenset())


def test_definition_is_queried_under_its_own_name() -> None:
    subject = make_subject(EXERCISE.solution.replace(NAME, "Mine"))
    assert BATCH_PLAN.run_on(subject, "Mine") == Comparison(frozenset())
    assert BATCH_PLAN.run_on(subject, NAME).inexact == EVERY_QUERY


def test_parameters_are_found_where_a_definition_keeps_them() -> None:
    source = EXERCISE.solution.replace("W_query", "w_q").replace("W_key", "w_k")
    subject = make_subject(source.replace("W_value", "w_v"))
    harness = Harness(subject, EXERCISE.contract)
    assert it_equals_the_equation in run_batch_plan(harness, EXERCISE).proven
    assert [kind for kind, _ in harness.notes] == ["renamed_parameters"]


def test_wrong_answer_proves_no_dependent_property() -> None:
    found = compare_answers(change_solution("/ keys.shape[-1] ** 0.5", ""))
    assert it_equals_the_equation not in BATCH_PLAN.find_proven(found)
    assert the_gradient_of_the_input_is_right not in BATCH_PLAN.find_proven(found)


def test_stacked_answers_are_rejected_if_sequences_mix() -> None:
    wrong = change_solution(MIXED, "attn_weights @ (values + values.mean())")
    proven = BATCH_PLAN.find_proven(compare_answers(wrong))
    assert each_sequence_is_attended_alone not in proven
    assert the_future_is_invisible not in proven
    stacked = EVERY_QUERY - BATCH_PLAN.unstacked
    assert stacked
    assert not any(BATCH_PLAN.queries_by_property[claim] & stacked for claim in proven)


def test_repeated_queries_must_be_bitwise_equal() -> None:
    noisy = change_solution(MIXED, f"{MIXED} * (1 + 1e-15 * torch.rand(1, dtype=x.dtype))")
    found = compare_answers(noisy)
    assert evaluation_is_repeatable not in BATCH_PLAN.find_proven(found)


def test_answers_of_float32_are_noted() -> None:
    rough = change_solution(MIXED, "(attn_weights.float() @ values.float()).to(x.dtype)")
    harness = Harness(make_subject(rough), EXERCISE.contract)
    result, cases = run_batch_plan(harness, EXERCISE), EXERCISE.plan_cases()
    assert it_equals_the_equation not in result.proven  # which needs the whole bound
    assert not result.list_open(it_equals_the_equation, cases[it_equals_the_equation])
    assert "float32" in [kind for kind, _ in harness.notes]


@pytest.mark.parametrize(
    "returned",
    [
        "(attn_weights @ values).float()",
        "(attn_weights @ values)[:1]",
        "(attn_weights @ values, 1)",
        "None",
        "float('nan') * (attn_weights @ values)",
    ],
)
def test_malformed_answer_is_none(returned: str) -> None:
    found = compare_answers(change_solution(MIXED, returned))
    assert it_equals_the_equation not in BATCH_PLAN.find_proven(found)


def test_failed_construction_does_not_affect_others() -> None:
    picky = change_solution("super().__init__()", "super().__init__()\n        assert d_in != 5")
    found = compare_answers(picky)
    assert found.inexact and found.inexact < EVERY_QUERY


@dataclass(eq=False)
class Gone:
    """A channel whose submission has ended."""

    asked: int = 0

    def request(self, op: str, meta: Mapping[str, Any], tensors: object = ()) -> Message:
        self.asked += 1
        raise SubmissionFailed(Status.CRASHED, "the process had ended before")


@dataclass(eq=False)
class Liar:
    """A channel that answers every request with the same."""

    meta: Mapping[str, Any]

    def request(self, op: str, meta: Mapping[str, Any], tensors: object = ()) -> Message:
        return Message(1, "ok", self.meta)


def test_dead_process_proves_nothing() -> None:
    found = BATCH_PLAN.run_on(ChannelSubject(Gone()), NAME)
    assert BATCH_PLAN.find_proven(found) == frozenset()


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"constructions": 3},
        {"constructions": [{"dtypes": "float64", "devices": [], "tensors": 0}]},
        {"constructions": [{"dtypes": [1], "devices": ["cpu"], "tensors": 0}]},
    ],
)
def test_unrequested_reply_is_refused(meta: Mapping[str, Any]) -> None:
    with pytest.raises(SubmissionFailed, match="answered something that was not asked"):
        BATCH_PLAN.batches[0].run_on(ChannelSubject(Liar(meta)), NAME)


@pytest.mark.parametrize(
    "meta",
    [
        {"constructions": []},
        {"constructions": [{"dtypes": [], "devices": [], "tensors": [1]}]},
        {"constructions": [{"dtypes": [], "devices": [], "tensors": [1, -1]}]},
    ],
)
def test_reply_about_other_objects_is_refused(meta: Mapping[str, Any]) -> None:
    with pytest.raises(SubmissionFailed, match="other tensors than it announced"):
        BATCH_PLAN.batches[0].run_on(ChannelSubject(Liar(meta)), NAME)


def named(verdicts: Iterable[Verdict]) -> list[tuple[str, Status]]:
    return [(verdict.property.name, verdict.status) for verdict in verdicts]


def one_by_one(source: str, exercise: Exercise = EXERCISE) -> list[tuple[str, Status]]:
    harness = Harness(make_subject(source), exercise.contract)

    def apart(claim: Property, cases: Sequence[Case]) -> Verdict:
        harness.forget()
        return find_first_failure(claim, harness, cases)

    return named(check_in_order(exercise.plan_cases(), harness, apart))


def all_at_once(source: str, exercise: Exercise = EXERCISE) -> list[tuple[str, Status]]:
    harness = Harness(make_subject(source), exercise.contract)

    def afresh() -> None:
        harness.subject = make_subject(source)
        harness.forget()

    return named(
        check_all(harness, exercise, lambda p, c: find_first_failure(p, harness, c), afresh)
    )


STATEFUL = ["mask_shared_by_instances", "generator_reseeded"]


@pytest.mark.sampled("stem", STATEFUL, STATEFUL[:1])
def test_stateful_module_is_checked_property_by_property(stem: str) -> None:
    source = find_answer(EXERCISE, stem).source
    assert all_at_once(source) == one_by_one(source)


def test_interference_check_records_the_undisturbed_answer_first() -> None:
    answer = find_answer(EXERCISE, "mask_shared_by_instances")
    harness = Harness(make_subject(answer.source), EXERCISE.contract)
    claim = next(c for c in EXERCISE.properties if c.name == "other_instances_do_not_matter")
    [case] = EXERCISE.plan_cases()[claim]
    # A module that has been made already, and has not answered yet, is disturbed like the other.
    assert harness.get_context(case).adapter is not None
    assert find_first_failure(claim, harness, [case]).status is not Status.PASSED


def test_sizes_are_thinned_out_where_biases_are_not_supported() -> None:
    exercise = BY_SLUG["multi_head_attention"]
    source = find_answer(exercise, "qkv_bias_for_query_only").source
    harness = Harness(make_subject(source), exercise.contract)
    asked: dict[str, int] = {}

    def check_live(prop: Property, cases: Sequence[Case]) -> Verdict:
        asked[prop.name] = len(cases)
        return find_first_failure(prop, harness, cases)

    verdicts = check_all(harness, exercise, check_live, harness.forget)
    tried = {verdict.property.name: verdict.cases_tried for verdict in verdicts}
    assert 0 < asked["every_size_is_right"] <= MANY < len(list(list_small_sizes()))
    assert tried["every_size_is_right"] == asked["every_size_is_right"]
    assert asked["it_equals_the_equation"] < tried["it_equals_the_equation"], "the rest is known"


def test_many_cases_are_thinned_out_evenly() -> None:
    cases = [Case(seed=seed) for seed in range(MANY + 1)]
    assert [case.seed for case in thin_out(cases)] == list(range(0, MANY + 1, 2))
    assert thin_out(cases[:MANY]) == cases[:MANY]
    assert thin_out([]) == []


def test_interfering_modules_fail_the_matching_properties() -> None:
    exercise = BY_SLUG["two_dimensional_output"]
    statuses = dict(all_at_once(find_answer(exercise, "shared_module").source, exercise))
    broken = {name for name, status in statuses.items() if status is not Status.PASSED}
    assert broken == {
        "its_state_dict_carries_everything",  # nor is what a copy is loaded into another module
        "other_instances_do_not_matter",
        "loading_moving_and_copying_leave_no_trace",
        "every_module_starts_anew",
    }


ANSWERS = [
    (exercise, answer)
    for exercise in ALL
    if exercise.slug != "gpt2_size"  # nothing of it is laid out beforehand
    for answer in load_bank(exercise)
]


@pytest.mark.deep
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("exercise", "answer"), ANSWERS, ids=[f"{e.slug}/{answer.name}" for e, answer in ANSWERS]
)
def test_verdicts_match_unbatched_checks(exercise: Exercise, answer: Answer) -> None:
    assert all_at_once(answer.source, exercise) == one_by_one(answer.source, exercise)
