"""A run's own seed changes the numbers of a bank, and nothing that a verdict may depend on."""

import itertools
from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.cases.case_set import PUBLIC_SEED, generate_case_set
from headcheck.properties.cases.case_tensors import make_mask, make_parameters, make_tokens
from headcheck.properties.cases.reseeding import reseed_cases
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.case import Case, InputContent, MaskForm

MULTI_HEAD = BY_SLUG["multi_head_attention"].contract
MASKED = BY_SLUG["masked_multi_head"].contract
CASES = generate_case_set(MULTI_HEAD)
SECRET = 8_214_565_720_323_784_703


def seeds(cases: tuple[Case, ...]) -> list[int]:
    return [case.seed for case in cases]


def test_public_seed_keeps_the_case_set() -> None:
    assert reseed_cases(MULTI_HEAD, CASES, PUBLIC_SEED, "a") == CASES


def test_other_numbers_in_the_same_sizes_and_options() -> None:
    drawn = reseed_cases(MULTI_HEAD, CASES, SECRET, "a")
    assert [replace(case, seed=0) for case in drawn] == [replace(case, seed=0) for case in CASES]
    assert not set(seeds(drawn)) & set(seeds(CASES))
    for one, other in zip(CASES, drawn, strict=True):
        weights = [make_parameters(case, MULTI_HEAD).W_v for case in (one, other)]
        assert not torch.equal(*weights)


def test_the_same_seed_gives_the_same_everywhere() -> None:
    drawn = reseed_cases(MULTI_HEAD, CASES, SECRET, "a")
    assert drawn == reseed_cases(MULTI_HEAD, CASES, SECRET, "a")
    assert seeds(drawn)[:3] == [471938161, 1407533277, 3524720302]


def test_one_case_reveals_nothing_about_another() -> None:
    drawn = seeds(reseed_cases(MULTI_HEAD, CASES, SECRET, "a"))
    assert len(set(drawn)) == len(drawn)
    for seed, owner in ((SECRET, "b"), (SECRET + 1, "a")):
        assert not set(drawn) & set(seeds(reseed_cases(MULTI_HEAD, CASES, seed, owner)))
    # Nor does how far apart two of them are.
    again = seeds(reseed_cases(MULTI_HEAD, CASES, SECRET + 1, "a"))
    gaps = [{b - a for a, b in itertools.pairwise(run)} for run in (drawn, again)]
    assert not gaps[0] & gaps[1]


def scores_leave(contract: Contract, case: Case, edge: float) -> bool:
    """Whether an exponential of some score is infinite. Of one head, one dimension wide."""
    x, p = make_tokens(case, contract), make_parameters(case, contract)
    return bool((x @ p.W_q.mT @ (x @ p.W_k.mT).mT).max() > edge)


@pytest.mark.parametrize("public", range(1, 9))
def test_exponential_overflow_does_not_depend_on_the_seed(public: int) -> None:
    sizes = Case(batch=3, tokens=8, context_length=8, sharpness=5, content=InputContent.OUTLIER)
    case = replace(sizes, seed=public)
    for edge in (88.0, 709.0):
        drawn = reseed_cases(MULTI_HEAD, [case] * 10, SECRET, "a")
        was = scores_leave(MULTI_HEAD, case, edge)
        assert {scores_leave(MULTI_HEAD, each, edge) for each in drawn} == {was}


PLIGHTS: dict[str, Callable[[Tensor], Tensor]] = {
    "sees not all": lambda sees: ~sees.all(-1),
    "does not see itself": lambda sees: ~sees.diagonal(),
    "sees itself alone": lambda sees: sees.diagonal() & (sees.sum(-1) == 1),
    "sees later ones alone": lambda sees: ~sees.tril().any(-1),
}


@pytest.mark.parametrize("plight", PLIGHTS)
def test_mask_edge_cases_occur_under_every_seed_or_none(plight: str) -> None:
    def there(case: Case) -> bool:
        mask = make_mask(case)
        assert mask is not None
        return bool(PLIGHTS[plight](mask != 0).any())

    small = Case(tokens=3, context_length=3, mask_form=MaskForm.QUERY_KEY)
    kinds = {there(replace(small, seed=n)): replace(small, seed=n) for n in range(1, 80)}
    assert set(kinds) == {False, True}, "chance decides, unless somebody sees to it"
    for was, case in kinds.items():
        drawn = reseed_cases(MASKED, [case] * 20, SECRET, "a")
        assert {there(each) for each in drawn} == {was}
