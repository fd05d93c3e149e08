"""What the oracle remembers is what it would compute anew, and nobody writes on it."""

from dataclasses import replace

import pytest
import torch

from headcheck.exercises import ALL, BY_SLUG, Exercise
from headcheck.properties.bounds import oracle
from headcheck.properties.bounds.oracle import Expected, compute_expected
from headcheck.properties.cases.case_tensors import make_mask, make_parameters, make_tokens
from headcheck.properties.check import find_first_failure
from headcheck.properties.sized_cache import SizedCache
from headcheck.properties.terms.case import Case
from headcheck.reference import causal_mask
from tests.submissions import load_source

CONTRACT = BY_SLUG["multi_head_attention"].contract
CASE = Case(batch=2, tokens=3, context_length=3, d_in=3, heads=2, head_dim=2, seed=5)


@pytest.fixture(autouse=True)
def nothing_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(oracle, "_CACHE", SizedCache[Expected](oracle.MAX_CACHED_SCORES))


def asked(case: Case = CASE, shift: float = 0.0) -> Expected:
    x = make_tokens(case, CONTRACT) + shift
    parameters, mask = make_parameters(case, CONTRACT), causal_mask(case.tokens)
    return compute_expected(CONTRACT, case, x, parameters, mask)


def test_repeated_query_is_computed_once() -> None:
    assert asked() is asked()


def test_numbers_dtype_and_mask_are_part_of_the_cache_key() -> None:
    x, parameters = make_tokens(CASE, CONTRACT), make_parameters(CASE, CONTRACT)
    answers = [
        asked(),
        asked(shift=1e-12),
        asked(replace(CASE, seed=6)),
        asked(replace(CASE, dtype="float32")),
        compute_expected(CONTRACT, CASE, x, parameters, None),
        compute_expected(CONTRACT, CASE, x, replace(parameters, b_o=None), causal_mask(3)),
    ]
    assert len({id(answer) for answer in answers}) == len(answers)


MANY_CASES = [exercise for exercise in ALL if exercise.cases > 3]


@pytest.mark.sampled("exercise", MANY_CASES, MANY_CASES[2:3], ids=lambda e: e.slug)
def test_no_property_changes_cached_results(exercise: Exercise) -> None:
    harness = load_source(exercise.solution, exercise.contract)
    kept: dict[int, tuple[Expected, list[torch.Tensor]]] = {}
    for claim, chosen in exercise.plan_cases().items():
        find_first_failure(claim, harness, chosen[:4])
        for expected, _ in oracle._CACHE.results.values():
            if id(expected) not in kept:
                copies = [t.clone() for t in (*expected.outputs, expected.exact.weights)]
                kept[id(expected)] = expected, copies
    assert kept
    for expected, copies in kept.values():
        now = (*expected.outputs, expected.exact.weights)
        assert all(torch.equal(a, b) for a, b in zip(now, copies, strict=True))
    for case in {case for chosen in exercise.plan_cases().values() for case in chosen[:2]}:
        context = harness.get_context(case)
        assert torch.equal(context.x, make_tokens(case, exercise.contract))
        mask = make_mask(case)
        assert mask is None or (context.mask is not None and torch.equal(context.mask, mask))
