"""The width of all heads is set under any name, also in a config."""

from dataclasses import replace

from headcheck.exercises import BY_SLUG
from headcheck.properties.contracts.contract import Argument, Contract
from headcheck.properties.families.constructor import set_width
from headcheck.properties.terms.case import Case

MULTI_HEAD = BY_SLUG["multi_head_attention"].contract
BLOCK = BY_SLUG["gpt_block"].contract
CASE = Case(heads=2, head_dim=3, d_in=6)


def change(contract: Contract, width: int = 7) -> object:
    return set_width(contract, contract.build_arguments(CASE), width)


def with_config(*fields: Argument) -> Contract:
    return replace(MULTI_HEAD, arguments=(Argument("config", "config", fields=fields),))


def test_the_width_has_the_name_of_the_contract() -> None:
    assert change(BLOCK) == {"emb_dim": 7, "num_heads": 2}
    assert set_width(MULTI_HEAD, {"d_in": 6, "d_out": 6}, 7) == {"d_in": 6, "d_out": 7}


def test_where_tokens_are_as_wide_as_heads_both_are_set() -> None:
    square = replace(MULTI_HEAD, square=True)
    assert set_width(square, {"d_in": 6, "d_out": 6}, 7) == {"d_in": 7, "d_out": 7}


def test_a_config_has_the_width_among_its_fields() -> None:
    own = with_config(Argument("dim", "d_out"), Argument("n", "heads"))
    assert change(own) == {"config": {"dim": 7, "n": 2}}
    changed = change(with_config())
    assert isinstance(changed, dict)
    assert changed["config"]["n_embd"] == 7


def test_a_width_that_is_no_argument_cannot_be_set() -> None:
    assert change(with_config(Argument("size", "head_dim"), Argument("n", "heads"))) is None
