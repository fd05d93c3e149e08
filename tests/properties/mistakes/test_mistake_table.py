"""A menu names whatever explains an answer, as following every pipeline alone does."""

import pytest
import torch
from torch import Tensor

from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.mistakes.catalogue import DETERMINISTIC
from headcheck.properties.mistakes.evaluation import make_attention_inputs
from headcheck.properties.mistakes.mistake_table import (
    Candidate,
    MistakeKey,
    MistakeTable,
    build_table,
    iter_nan_workarounds,
    make_key,
)
from headcheck.properties.mistakes.pipeline import CORRECT, AttentionInputs, StepOverrides
from headcheck.properties.mistakes.samples import CASES, Sample
from tests.properties.contracts import MASKED, MULTI_HEAD

KNOWN = [each for each in DETERMINISTIC if not each.rare][::3]


def given(contract: Contract = MULTI_HEAD, case: int = 0) -> AttentionInputs:
    context = LiveContext(Harness(make_subject({}), contract), contract, contract.fit(CASES[case]))
    visible = context.may_attend(context.case.tokens, context.mask)
    tensors = context.x, context.parameters, visible
    return make_attention_inputs(contract, context.case, *tensors)


def wanted(*, pairs: bool, case: int = 0) -> MistakeKey:
    return make_key(given(case=case), CORRECT, KNOWN, pairs=pairs)


def sample(answer: tuple[Tensor, ...], case: int = 0) -> Sample:
    return Sample(given(case=case), answer, CORRECT)


def one_by_one(asked: Sample, candidates: tuple[Candidate, ...]) -> list[Candidate]:
    """Those that explain an answer, with a habit or without."""
    return [
        (names, change)
        for names, change in candidates
        if asked.is_explained_by(CORRECT.override(change))
        or any(asked.is_explained_by(CORRECT.override(way)) for way in iter_nan_workarounds(change))
    ]


def ways() -> list[StepOverrides]:
    return [change for each in KNOWN for change in each.variants]


@pytest.mark.parametrize("pairs", [False, True])
@pytest.mark.parametrize("case", [0, 4])
def test_near_candidates_are_those_that_explain(pairs: bool, case: int) -> None:
    made = build_table(wanted(pairs=pairs, case=case))
    assert len(made.candidates) > (300 if pairs else 30)
    evaluator = sample((), case).evaluator
    compared = 0
    for change in ways()[::6] if pairs else ways():
        steps = evaluator.evaluate(CORRECT.override(change))
        if steps is None:
            continue
        asked = sample(steps.answer, case)
        near = list(asked.find_candidates(KNOWN, pairs=pairs))
        assert all(any(one is other for other in made.candidates) for one in near)
        explaining = one_by_one(asked, made.candidates)
        # What explains is near; what is near by a habit alone is looked at and found wanting.
        assert [each for each in near if each in explaining] == explaining
        if asked.has_finite_answer:
            assert pairs or explaining
            compared += 1
    assert compared > 5


def test_answer_of_a_non_finite_mistake_is_near() -> None:
    made = build_table(wanted(pairs=False))
    evaluator = sample(()).evaluator
    found = 0
    for candidate in made.candidates:
        _, change = candidate
        steps = evaluator.evaluate(CORRECT.override(change))
        if steps is None or all(bool(t.isfinite().all()) for t in steps.answer):
            continue
        for pipeline in map(CORRECT.override, iter_nan_workarounds(change)):
            after = evaluator.evaluate(pipeline)
            if after is not None and after.answer[0].isfinite().any():
                assert candidate in list(sample(after.answer).find_candidates(KNOWN, pairs=False))
                found += 1
    assert found


def test_misshapen_or_distant_answer_is_near_nothing() -> None:
    right = sample(()).correct_state.answer
    for answer in ((right[0][:, :-1],), (right[0], right[0]), (right[0] + 1e3,)):
        assert list(sample(answer).find_candidates(KNOWN, pairs=True)) == []


@pytest.mark.parametrize(("share", "expected"), [(1 - 1e-9, 1), (1 + 1e-9, 0)])
def test_nearness_ends_at_the_tolerance(share: float, expected: int) -> None:
    row = torch.zeros(1, 2, dtype=torch.float64)
    one = MistakeTable((((), {}),), {((2,),): (torch.tensor([0]), row)})
    limit = 1e-13 / 3  # no number of float32
    off = (torch.tensor([0.0, limit * share], dtype=torch.float64),)
    assert len(list(one.find_candidates(off, [limit]))) == expected


def test_mistake_table_is_built_once_per_key() -> None:
    assert build_table(wanted(pairs=False)) is build_table(wanted(pairs=False))
    one = given()
    one_key, own = (make_key(each, CORRECT, KNOWN, pairs=False) for each in (one, given()))
    assert one_key == own
    others = [
        make_key(given(case=1), CORRECT, KNOWN, pairs=False),
        make_key(given(MASKED), CORRECT, KNOWN, pairs=False),
        make_key(one, CORRECT, KNOWN[:-1], pairs=False),
        make_key(one, CORRECT, KNOWN, pairs=True),
        make_key(one, CORRECT.override(KNOWN[0].variants[0]), KNOWN, pairs=False),
    ]
    assert make_key(one, CORRECT, KNOWN, pairs=False) not in others


def test_non_finite_numbers_are_compared() -> None:
    right = sample(()).correct_state.answer[0]
    holed = right.clone()
    holed[0, 0, 0] = torch.nan
    assert list(sample((holed,)).find_candidates(KNOWN, pairs=False)) == []
