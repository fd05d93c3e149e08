"""Questions put all at once: the same verdicts as one by one, and nothing believed in vain."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import pytest

from exercises import ALL, BY_SLUG, Exercise
from exercises.answers import Answer, find_answer, load_bank
from grader.judging import script
from grader.judging.exchange import NAMELESS, Found
from grader.judging.script import answered, compiled, verdicts_on
from grader.judging.subject import ChannelSubject
from grader.sandbox.wire import Message
from properties.checking import first_trouble
from properties.invariants.batch import each_sequence_is_attended_alone
from properties.invariants.gradients import the_gradient_of_the_input_is_right
from properties.invariants.masking import the_future_is_invisible
from properties.invariants.purity import evaluation_is_repeatable
from properties.invariants.values import it_equals_the_equation
from properties.property import Property, Verdict, in_order
from properties.trial import Bench
from properties.violation import Status, SubmissionFailed
from tests.grader.judging.causal import (
    EXERCISE,
    MIXED,
    NAME,
    SCRIPT,
    changed,
    found_in,
    subject_of,
)


def test_a_solution_answers_every_question_exactly() -> None:
    found = found_in(EXERCISE.solution)
    assert found == Found(frozenset())
    assert SCRIPT.proves(found) == frozenset(SCRIPT.asked)


def test_what_is_too_large_for_a_message_has_one_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(script, "LARGEST", 1)
    contract = replace(EXERCISE.contract, name=NAMELESS)
    claims = dict(list(EXERCISE.plan().items())[:8])
    large = compiled(contract, claims)
    assert [len(each.constructions) for each in large.exchanges] == [1] * len(large.exchanges)
    assert large.put_to(subject_of(EXERCISE.solution), NAME) == Found(frozenset())


def test_a_definition_is_asked_under_its_own_name() -> None:
    subject = subject_of(EXERCISE.solution.replace(NAME, "Mine"))
    assert SCRIPT.put_to(subject, "Mine") == Found(frozenset())
    assert SCRIPT.put_to(subject, NAME).inexact == frozenset().union(*SCRIPT.asked.values())


def test_parameters_are_found_where_a_definition_keeps_them() -> None:
    source = EXERCISE.solution.replace("W_query", "w_q").replace("W_key", "w_k")
    subject = subject_of(source.replace("W_value", "w_v"))
    bench = Bench(subject, EXERCISE.contract)
    assert it_equals_the_equation in answered(bench, EXERCISE).proven
    assert [kind for kind, _ in bench.notes] == ["renamed_parameters"]


def test_a_wrong_answer_proves_nothing_that_rests_on_it() -> None:
    found = found_in(changed("/ keys.shape[-1] ** 0.5", ""))
    assert it_equals_the_equation not in SCRIPT.proves(found)
    assert the_gradient_of_the_input_is_right not in SCRIPT.proves(found)


def test_nothing_stacked_is_believed_where_sequences_of_a_batch_mix() -> None:
    wrong = changed(MIXED, "attn_weights @ (values + values.mean())")
    proven = SCRIPT.proves(found_in(wrong))
    assert each_sequence_is_attended_alone not in proven
    assert the_future_is_invisible not in proven
    stacked = frozenset().union(*SCRIPT.asked.values()) - SCRIPT.alone
    assert stacked
    assert not any(SCRIPT.asked[claim] & stacked for claim in proven)


def test_the_same_question_must_get_the_same_bits() -> None:
    noisy = changed(MIXED, f"{MIXED} * (1 + 1e-15 * torch.rand(1, dtype=x.dtype))")
    found = found_in(noisy)
    assert evaluation_is_repeatable not in SCRIPT.proves(found)


def test_answers_of_float32_are_noted() -> None:
    rough = changed(MIXED, "(attn_weights.float() @ values.float()).to(x.dtype)")
    subject = subject_of(rough)
    bench = Bench(subject, EXERCISE.contract)
    assert it_equals_the_equation in answered(bench, EXERCISE).proven
    assert "float32" in [kind for kind, _ in bench.notes]


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
def test_an_answer_of_another_form_is_none(returned: str) -> None:
    found = found_in(changed(MIXED, returned))
    assert it_equals_the_equation not in SCRIPT.proves(found)


def test_a_construction_that_fails_leaves_the_others() -> None:
    picky = changed("super().__init__()", "super().__init__()\n        assert d_in != 5")
    found = found_in(picky)
    assert found.inexact
    assert found.inexact < frozenset().union(*SCRIPT.asked.values())


@dataclass(eq=False)
class Gone:
    """A channel whose submission has ended."""

    asked: int = 0

    def request(self, op: str, meta: Mapping[str, Any], tensors: object = ()) -> Message:
        self.asked += 1
        raise SubmissionFailed(Status.CRASHED, "the process had ended before")


def test_a_process_that_is_gone_proves_nothing() -> None:
    found = SCRIPT.put_to(ChannelSubject(Gone()), NAME)
    assert SCRIPT.proves(found) == frozenset()


@pytest.mark.parametrize(
    "meta",
    [
        {},
        {"constructions": 3},
        {"constructions": [{"dtypes": "float64", "devices": [], "tensors": 0}]},
        {"constructions": [{"dtypes": [1], "devices": ["cpu"], "tensors": 0}]},
    ],
)
def test_a_reply_that_was_not_asked_for_is_refused(meta: Mapping[str, Any]) -> None:
    with pytest.raises(SubmissionFailed, match="answered what was not asked"):
        SCRIPT.exchanges[0].judged(Message(1, "ok", meta))


@pytest.mark.parametrize(
    "meta",
    [{"constructions": []}, {"constructions": [{"dtypes": [], "devices": [], "tensors": 1}]}],
)
def test_a_reply_about_other_constructions_is_refused(meta: Mapping[str, Any]) -> None:
    with pytest.raises(SubmissionFailed, match="other tensors than it announced"):
        SCRIPT.exchanges[0].judged(Message(1, "ok", meta))


def named(verdicts: Iterable[Verdict]) -> list[tuple[str, Status]]:
    return [(verdict.property.name, verdict.status) for verdict in verdicts]


def one_by_one(source: str, exercise: Exercise = EXERCISE) -> list[tuple[str, Status]]:
    bench = Bench(subject_of(source), exercise.contract)
    plan = exercise.plan()

    def apart(claim: Property) -> Verdict:
        bench.forget()
        return first_trouble(claim, bench, plan[claim])

    return named(in_order(plan, apart))


def all_at_once(source: str, exercise: Exercise = EXERCISE) -> list[tuple[str, Status]]:
    bench = Bench(subject_of(source), exercise.contract)

    def afresh() -> None:
        bench.subject = subject_of(source)
        bench.forget()

    return named(verdicts_on(bench, exercise, lambda p, c: first_trouble(p, bench, c), afresh))


@pytest.mark.parametrize("stem", ["generator_reseeded", "mask_shared_by_instances"])
def test_what_remembers_is_judged_claim_by_claim(stem: str) -> None:
    source = find_answer(EXERCISE, stem).source
    assert all_at_once(source) == one_by_one(source)


def test_a_claim_about_disturbance_asks_first_what_is_answered_without() -> None:
    answer = find_answer(EXERCISE, "mask_shared_by_instances")
    bench = Bench(subject_of(answer.source), EXERCISE.contract)
    claim = next(c for c in EXERCISE.properties if c.name == "other_instances_do_not_matter")
    [case] = EXERCISE.plan()[claim]
    # A module that has been made already, and has not answered yet, is disturbed like the other.
    assert bench.trial(case).instance is not None
    assert first_trouble(claim, bench, [case]).status is not Status.PASSED


def test_what_disturbs_other_modules_fails_the_claims_that_say_so() -> None:
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
def test_verdicts_are_those_of_asking_one_by_one(exercise: Exercise, answer: Answer) -> None:
    assert all_at_once(answer.source, exercise) == one_by_one(answer.source, exercise)
