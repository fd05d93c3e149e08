"""What a part declares exists: fields, random streams, laws that some claim needs."""

import itertools
from dataclasses import fields

import pytest

from headcheck.properties.contracts.contract import Contract
from headcheck.properties.families import ALL
from headcheck.properties.parts import BROKEN, BROUGHT, PARTS, WEIGHTS
from headcheck.properties.parts.part import Part
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters

EACH = pytest.mark.parametrize("part", PARTS, ids=lambda part: part.name)


def test_parameters_are_those_of_the_equation_each_with_a_stream_of_its_own() -> None:
    assert set(WEIGHTS) == {field.name for field in fields(Parameters)}
    streams = [weight.stream for weight in WEIGHTS.values()]
    assert len({*streams, 0, 9, 10, 11}) == len(streams) + 4  # the others are tokens and masks
    assert all(set(weight.needs) <= set(WEIGHTS) for weight in WEIGHTS.values())


@pytest.mark.parametrize("name", WEIGHTS)
def test_a_parameter_has_words_for_drafts(name: str) -> None:
    assert WEIGHTS[name.replace("b_", "W_")].words


@EACH
def test_sizes_are_fields_of_a_case_and_keys_those_of_a_contract(part: Part) -> None:
    assert {each.name for each in part.quantities} <= {field.name for field in fields(Case)}
    assert set(part.keys) <= {field.name for field in fields(Contract)}
    assert bool(part.keys) == bool(part.missing)
    assert all(quantity.absent == getattr(Case(), quantity.name) for quantity in part.quantities)


@EACH
def test_plain_attention_has_no_part(part: Part) -> None:
    assert not part.is_in(Contract(name="Plain"))


def test_some_claim_needs_each_law() -> None:
    needed = set(itertools.chain(*(claim.needs for claim in ALL)))
    assert needed >= BROKEN
    assert not BROKEN & BROUGHT


@EACH
def test_a_capability_is_explained_to_who_lists_it_without_the_part(part: Part) -> None:
    told = {capability for each in PARTS for capability in each.needed}
    assert part.brings <= told
