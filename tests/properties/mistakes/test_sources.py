"""Mistakes in cross-attention are seen where a sequence attends to another, and only there."""

from dataclasses import replace

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.properties.bounds.oracle import compute_expected
from headcheck.properties.cases.case_tensors import make_other_tokens, make_parameters, make_tokens
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness.module_adapter import construct
from headcheck.properties.mistakes.catalogue import OF_SOME_CONTRACTS, Mistake
from headcheck.properties.mistakes.faulty_attention import restate
from headcheck.properties.mistakes.worked_example import work_example
from headcheck.properties.terms.case import Case
from tests.properties.mistakes.naming import find_names, make_harness

CONTRACT = BY_SLUG["cross_attention"].contract
THREE = ("query", "key", "value")
APART = replace(CONTRACT, call_form=replace(CONTRACT.call_form, inputs=THREE), call=THREE)
CASE = Case(batch=2, tokens=4, context_length=4, d_in=5, heads=2, head_dim=3, seed=3)
SOURCES = [each for each in OF_SOME_CONTRACTS if Capability.CROSS in each.needs]
LENGTHS_DIFFER = "keys_cut_to_number_of_queries"
"""its effect is no other matrix of the same shape"""


@pytest.mark.parametrize("each", SOURCES, ids=lambda each: each.name)
def test_each_is_named(each: Mistake) -> None:
    assert [find_names(way, CONTRACT) for way in each.variants] == [[each.name]]


@pytest.mark.parametrize("contract", [CONTRACT, APART], ids=["two inputs", "three inputs"])
def test_right_attention_is_not_named(contract: Contract) -> None:
    assert find_names({}, contract) == []


def test_without_other_tokens_none_is_tried() -> None:
    alone = replace(CONTRACT, capabilities=CONTRACT.capabilities - {Capability.CROSS})
    assert find_names(SOURCES[0].variants[0], alone) == []


@pytest.mark.parametrize("contract", [CONTRACT, APART], ids=["two inputs", "three inputs"])
@pytest.mark.parametrize("tokens", [1, 4, 9])
def test_other_tokens_are_those_of_keys_and_values(contract: Contract, tokens: int) -> None:
    case = contract.fit(CASE)
    others = make_other_tokens(case, contract, tokens)
    assert {tuple(t.shape) for t in others} == {(2, tokens, 5)}
    assert len(others) == len(contract.call_form.inputs) - 1
    x, parameters = make_tokens(case, contract), make_parameters(case, contract)
    expected = compute_expected(contract, case, x, parameters, None, others)
    adapter = construct(make_harness({}, contract).subject, restate(contract), case)
    adapter.set(parameters)
    (got,) = adapter.forward_apart(x, others).outputs
    assert bool(((got - expected.outputs[0]).abs() <= expected.tolerances[0].exact).all())
    alone = compute_expected(contract, case, x, parameters, None)
    assert not torch.allclose(alone.outputs[0], expected.outputs[0])


def test_what_is_shown_tells_them_all_apart() -> None:
    shown = [work_example(CONTRACT, each) for each in SOURCES if each.name != LENGTHS_DIFFER]
    assert len({each.wrong for each in shown if each}) == len(shown)


@pytest.mark.parametrize("each", SOURCES, ids=lambda each: each.name)
def test_each_is_shown_on_numbers_where_shapes_agree(each: Mistake) -> None:
    assert bool(work_example(CONTRACT, each)) is (each.name != LENGTHS_DIFFER)
