"""What the oracle remembers is what it would compute anew, and nobody writes on it."""

from dataclasses import replace

import pytest
import torch

from exercises import ALL, BY_SLUG, Exercise
from grader.sandbox.grader_side.subject import of_namespace
from properties import oracle
from properties.case import Case
from properties.cases.case_tensors import mask_of, parameters_of, tokens_of
from properties.check import first_trouble
from properties.harness.harness import Bench
from properties.oracle import Expected, expect
from reference import causal

CONTRACT = BY_SLUG["multi_head_attention"].contract
CASE = Case(batch=2, tokens=3, context_length=3, d_in=3, heads=2, head_dim=2, seed=5)


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "_REMEMBERED", {})


def asked(case: Case = CASE, shift: float = 0.0) -> Expected:
    x = tokens_of(case, CONTRACT) + shift
    return expect(CONTRACT, case, x, parameters_of(case, CONTRACT), causal(case.tokens))


def test_the_same_question_is_answered_once() -> None:
    assert asked() is asked()


def test_other_numbers_another_dtype_and_another_mask_are_other_questions() -> None:
    answers = [
        asked(),
        asked(shift=1e-12),
        asked(replace(CASE, seed=6)),
        asked(replace(CASE, dtype="float32")),
        expect(CONTRACT, CASE, tokens_of(CASE, CONTRACT), parameters_of(CASE, CONTRACT), None),
        expect(
            CONTRACT,
            CASE,
            tokens_of(CASE, CONTRACT),
            replace(parameters_of(CASE, CONTRACT), b_o=None),
            causal(3),
        ),
    ]
    assert len({id(answer) for answer in answers}) == len(answers)


def test_what_carries_gradients_is_not_remembered() -> None:
    x = tokens_of(CASE, CONTRACT).requires_grad_()
    parameters = parameters_of(CASE, CONTRACT)
    answer = expect(CONTRACT, CASE, x, parameters, None)
    assert answer.outputs[0].requires_grad
    assert answer is not expect(CONTRACT, CASE, x, parameters, None)


def test_only_so_much_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "MOST", 2)
    for seed in range(5):
        asked(replace(CASE, seed=seed))
    assert len(oracle._REMEMBERED) == 2
    monkeypatch.setattr(oracle, "LARGEST", 1)
    assert asked(replace(CASE, seed=9)) is not asked(replace(CASE, seed=9))


@pytest.mark.parametrize("exercise", [e for e in ALL if e.cases > 3], ids=lambda e: e.slug)
def test_no_claim_writes_on_what_is_remembered(exercise: Exercise) -> None:
    namespace: dict[str, object] = {"__name__": "submission"}
    exec(exercise.solution, namespace)
    bench = Bench(of_namespace(namespace), exercise.contract)
    kept: dict[int, tuple[Expected, list[torch.Tensor]]] = {}
    for claim, chosen in exercise.plan().items():
        first_trouble(claim, bench, chosen[:4])
        for expected in oracle._REMEMBERED.values():
            if id(expected) not in kept:
                copies = [t.clone() for t in (*expected.outputs, expected.exact.weights)]
                kept[id(expected)] = expected, copies
    assert kept
    for expected, copies in kept.values():
        now = (*expected.outputs, expected.exact.weights)
        assert all(torch.equal(a, b) for a, b in zip(now, copies, strict=True))
    for case in {case for chosen in exercise.plan().values() for case in chosen[:2]}:
        trial = bench.trial(case)
        assert torch.equal(trial.x, tokens_of(case, exercise.contract))
        mask = mask_of(case)
        assert mask is None or (trial.mask is not None and torch.equal(trial.mask, mask))
