"""What follows from a contract and a case is computed once for all submissions."""

from dataclasses import replace

import torch

from headcheck.properties.cases.case_tensors import convert_to_stored, make_parameters, make_tokens
from headcheck.properties.check import check_property
from headcheck.properties.harness.harness import Harness, LiveContext
from tests.grader.grading.causal import EXERCISE, change_solution, make_subject

CASE = EXERCISE.contract.fit(EXERCISE.plan_cases()[EXERCISE.prerequisite][0])


def make_context() -> LiveContext:
    return Harness(make_subject(""), EXERCISE.contract).create_context(CASE)


def test_submissions_share_numbers_and_exact_results() -> None:
    one, other = make_context(), make_context()
    assert one.x is other.x
    assert one.parameters is other.parameters
    assert one.expected is other.expected
    assert one.other_parameters is other.other_parameters
    assert not torch.equal(one.other_parameters.W_q, one.parameters.W_q)


def test_other_contracts_cases_and_seeds_share_nothing() -> None:
    context = make_context()
    contract = replace(EXERCISE.contract, scale=2.0)
    assert hash(contract) == hash(EXERCISE.contract)
    assert contract != EXERCISE.contract
    for other in (
        Harness(make_subject(""), contract).create_context(CASE),
        context.with_case(replace(CASE, seed=CASE.seed + 1)),
        context.with_case(replace(CASE, dtype="float32")),
    ):
        assert other.expected is not context.expected
        assert not torch.equal(other.expected.outputs[0], context.expected.outputs[0])


def test_stored_weights_are_those_of_the_contract_and_the_dtype() -> None:
    parameters, contract = make_context().parameters, EXERCISE.contract
    stored = convert_to_stored(contract, CASE, parameters)
    assert convert_to_stored(contract, CASE, parameters) is stored
    halved = convert_to_stored(contract, replace(CASE, dtype="float32"), parameters)
    assert {t.dtype for t in halved.values()} == {torch.float32}
    renamed = replace(contract, mappings=tuple(
        replace(m, path=f"inner.{m.path}") for m in contract.mappings
    ))  # fmt: skip
    assert set(convert_to_stored(renamed, CASE, parameters)) == {f"inner.{p}" for p in stored}


def test_no_check_modifies_what_is_shared() -> None:
    spoils = change_solution("tokens = x.shape[1]", "tokens = x.mul_(1.5).shape[1]")
    contexts = []
    for source in (EXERCISE.solution, spoils):
        harness = Harness(make_subject(source), EXERCISE.contract)
        for prop, cases in EXERCISE.plan_cases().items():
            check_property(prop, harness, cases[:1])
            contexts += [harness.get_context_for(prop.needs, case) for case in cases[:1]]
    for context in contexts:
        contract, case = context.contract, context.case
        assert torch.equal(context.x, make_tokens(case, contract))
        drawn = make_parameters(case, contract).items()
        assert all(torch.equal(getattr(context.parameters, name), t) for name, t in drawn)
        assert torch.equal(context.expected.outputs[0], context.expected.exact.output)
