"""What is hidden twice: a causal contract with a mask of padding, and queries that see nothing."""

from dataclasses import replace

import pytest
import torch

from headcheck.exercises.contract_file import load_contract
from headcheck.grader.batch.recording import Recorder
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.case_tensors import make_mask
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import Capability, Contract, Positions
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.families.far_positions import (
    bfloat16_places_far_tokens_as_float32_tables_do,
)
from headcheck.properties.families.hidden import (
    a_query_that_sees_nothing_gets_what_is_promised,
    a_query_that_sees_nothing_spoils_no_gradient,
    not_even_nan_counts_where_it_is_hidden,
)
from headcheck.properties.families.padding import padding_may_stand_on_either_side
from headcheck.properties.property import Property
from headcheck.properties.terms.call_form import EmptyRow
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.properties.violations.violation import Status
from tests.library.real_bugs import ADAPTERS, ROOT
from tests.submissions import load_source

PATH = ROOT / ADAPTERS / "padded_decoder"
CONTRACT = load_contract(PATH.with_suffix(".toml"))
SOURCE = PATH.with_suffix(".py").read_text(encoding="utf-8")
WITHOUT = CONTRACT.capabilities - {Capability.POSITIONS}
PLACELESS = replace(CONTRACT, positions=Positions.NONE, capabilities=WITHOUT)
CASE = Case(batch=3, tokens=6, context_length=6, mask_form=MaskForm.BATCH_ONE_ONE_KEY)


def judge(prop: Property, source: str, contract: Contract = CONTRACT) -> Status:
    cases = prop.select_cases(contract, generate_case_set(contract))
    return find_first_failure(prop, load_source(source, contract), cases).status


def test_padding_and_later_tokens_are_hidden_together() -> None:
    mask = torch.tensor([[True, True, False]])[:, None, None]
    visible = find_visible(CONTRACT, CASE, 3, mask)
    assert visible is not None
    assert visible[0, 0].tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 0]]


def test_every_query_keeps_a_key() -> None:
    drawn = []
    for seed in range(20):
        case = replace(CASE, seed=seed)
        own, fitting = make_mask(case), make_fitting_mask(PLACELESS, case)
        assert own is not None and fitting is not None
        visible = find_visible(PLACELESS, case, case.tokens, fitting)
        assert visible is not None
        assert bool(visible.any(-1).all())
        assert bool((fitting | ~own).all()), "a key that was shown stays so"
        drawn.append(bool((fitting != 0).all()))
    assert not all(drawn), "something is hidden"


def test_without_a_causal_mask_it_is_the_one_drawn() -> None:
    full = replace(PLACELESS, capabilities=PLACELESS.capabilities - {Capability.CAUSAL})
    own, fitting = make_mask(CASE), make_fitting_mask(full, CASE)
    assert own is not None and fitting is not None
    assert torch.equal(own, fitting)


def test_where_positions_count_only_the_last_keys_are_hidden() -> None:
    """Otherwise it would matter whether hidden keys have positions."""
    own, fitting = make_mask(CASE), make_fitting_mask(CONTRACT, CASE)
    assert own is not None and fitting is not None
    keep = fitting[:, 0, 0]
    assert torch.equal(keep.sum(-1), own[:, 0, 0].sum(-1))
    assert bool((keep[:, :-1] | ~keep[:, 1:]).all())


def test_finite_numbers_are_enough_where_no_more_is_promised() -> None:
    """The average of all values is finite, and is not what zeros give."""
    sees = "    sees = visible.any(-1, keepdim=True)\n"
    all_or_some = "    visible = visible | ~visible.any(-1, keepdim=True)\n"
    uniform = SOURCE.replace(sees, all_or_some + sees)
    assert uniform != SOURCE
    mask = replace(CONTRACT.call_form.mask, empty_row=EmptyRow.FINITE)
    finite = replace(CONTRACT, call_form=replace(CONTRACT.call_form, mask=mask))
    prop = a_query_that_sees_nothing_gets_what_is_promised
    assert judge(prop, uniform) is Status.FAILED
    assert judge(prop, uniform, finite) is Status.PASSED
    assert judge(prop, SOURCE, finite) is Status.PASSED


@pytest.mark.parametrize("promised", [EmptyRow.ZEROS, EmptyRow.FINITE])
def test_what_is_asked_of_queries_that_see_nothing_holds_of_the_equation(
    promised: EmptyRow,
) -> None:
    """The gradient belongs to the mask of the query, which hides more than that of the case."""
    mask = replace(CONTRACT.call_form.mask, empty_row=promised)
    contract = replace(CONTRACT, call_form=replace(CONTRACT.call_form, mask=mask))
    prop = a_query_that_sees_nothing_spoils_no_gradient
    cases = prop.select_cases(contract, generate_case_set(contract))
    assert cases and Recorder(contract).record_property(prop, cases)


def test_padding_is_as_if_it_were_not_there_where_positions_count() -> None:
    """Rotary positions count distances, so that padding in front moves nothing."""
    assert judge(padding_may_stand_on_either_side, SOURCE) is Status.PASSED


def test_other_ways_to_keep_nan_out_are_right() -> None:
    """What stands in padding may be replaced by anything finite."""
    other = SOURCE.replace("torch.zeros_like(t)) for t", "torch.ones_like(t)) for t")
    assert other != SOURCE
    assert judge(not_even_nan_counts_where_it_is_hidden, other) is Status.PASSED


def test_turning_in_float32_is_as_exact_as_tables_of_float32() -> None:
    wide = SOURCE.replace(
        "return t * cos + torch.cat([-second, first], dim=-1) * sin",
        "other = torch.cat([-second, first], dim=-1)\n"
        "    return (t.double() * cos + other.double() * sin).to(t.dtype)",
    )
    kept = SOURCE.replace(
        "return angles.cos().to(x.dtype), angles.sin().to(x.dtype)",
        "return angles.to(x.dtype).cos(), angles.to(x.dtype).sin()",
    )
    assert SOURCE not in (wide, kept)
    prop = bfloat16_places_far_tokens_as_float32_tables_do
    assert judge(prop, wide) is Status.PASSED
    assert judge(prop, kept) is Status.FAILED


def test_far_tokens_are_compared_with_every_softmax() -> None:
    """Exp(s - lse) rounds lse, which all of a row share: two or three times the error."""
    prop, by_lse = (
        bfloat16_places_far_tokens_as_float32_tables_do,
        SOURCE.replace(
            "torch.softmax(scores, dim=-1)",
            "torch.exp(scores - torch.logsumexp(scores, dim=-1, keepdim=True))",
        ),
    )
    assert by_lse != SOURCE
    assert judge(prop, by_lse) is Status.PASSED
