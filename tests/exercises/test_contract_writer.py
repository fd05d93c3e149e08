"""A contract that is written reads as it was: those of the exercises, and any that can be bound."""

from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path

import pytest
from hypothesis import given, reject
from hypothesis import strategies as st

from headcheck.exercises import ALL, Exercise
from headcheck.exercises.contract_file import read_exercise
from headcheck.exercises.contract_writer import write_contract
from headcheck.exercises.exercise import BadContract
from headcheck.properties.contracts.contract import (
    CONSTANT,
    Argument,
    Capability,
    Contract,
    Returns,
)
from headcheck.properties.contracts.implied_capabilities import complete_capabilities
from headcheck.properties.contracts.parameter_mapping import Packing, ParameterMapping
from headcheck.properties.terms.call_form import CallForm, MaskConvention, Polarity, TokenAxes
from headcheck.properties.terms.size_rules import BadSizes, parse_sizes

C = Capability
KEPT = [each.name for each in fields(Exercise) if each.name not in ("slug", "folder", "source")]
CALLS = (
    ("x",),
    ("x", "mask"),
    ("x", "context"),
    ("query", "key", "value"),
    ("value", "key", "query", "mask"),
)
NAMES = st.sampled_from(("width", "n_head", "größe", "p"))
CONSTANTS = st.one_of(
    st.booleans(), st.integers(), st.floats(allow_nan=False, allow_infinity=False), st.text()
)


def read_back(exercise: Exercise) -> Exercise:
    return read_exercise(Path("/course/own"), write_contract(exercise))


def make_exercise(contract: Contract, **own: object) -> Exercise:
    return Exercise("own", "Own", contract, Path("/course/own"), **own)  # type: ignore[arg-type]


@pytest.mark.parametrize("exercise", ALL, ids=lambda e: e.slug)
def test_the_contract_of_every_exercise_is_read_back(exercise: Exercise) -> None:
    again = read_back(exercise)
    assert {n: getattr(again, n) for n in KEPT} == {n: getattr(exercise, n) for n in KEPT}


@st.composite
def masks(draw: st.DrawFn) -> MaskConvention:
    return MaskConvention(
        draw(st.sampled_from(Polarity)),
        draw(st.sampled_from((None, "bool", "float64"))),
        draw(st.sampled_from((None, 2, 3, 4))),
        draw(st.booleans()),
        draw(st.sampled_from((float("-inf"), -1e9, -1e4))),
        draw(st.booleans()),
    )


@st.composite
def arguments(draw: st.DrawFn) -> tuple[Argument, ...]:
    quantities = ("d_out", "heads", "dropout", "context_length", CONSTANT)
    made = []
    for name in draw(st.lists(NAMES, unique=True, max_size=4)):
        quantity = draw(st.sampled_from(quantities))
        default = draw(CONSTANTS if quantity == CONSTANT else st.none())
        made.append(Argument(name, quantity, default))
    if draw(st.booleans()):
        return (Argument("config", "config", fields=tuple(made)),) if made else ()
    return tuple(made)


@st.composite
def contracts(draw: st.DrawFn) -> Contract:
    call = draw(st.sampled_from(CALLS))
    form = CallForm(
        call,
        axes=draw(st.sampled_from(TokenAxes)),
        mask=draw(masks()) if "mask" in call else MaskConvention(),
        places=draw(st.sampled_from((None, (0,), (1, 0)))),
        one_head=draw(st.booleans()),
    )
    usual = replace(form, inputs=("x", "mask")) == CallForm() and call in CALLS[:2]
    packing, transposed = draw(st.sampled_from(Packing)), draw(st.booleans())
    contract = Contract(
        name="Own",
        arguments=draw(arguments()),
        mappings=(
            ParameterMapping("qkv.weight", ("W_k", "W_q", "W_v"), transposed, packing),
            ParameterMapping("heads.{head}.out", ("W_o",), packing=packing),
        ),
        call=call,
        call_form=CallForm() if usual else form,
        returns=draw(st.sampled_from((Returns.OUTPUT, Returns.OUTPUT_AND_WEIGHTS))),
        capabilities=frozenset({draw(st.sampled_from((C.CAUSAL, C.FULL))), C.BATCH, C.STABLE}),
        square=draw(st.booleans()),
        sizes=draw(st.sampled_from((None, {"heads": 4}, {"context_length": 16, "d_in": 8}))),
        waived=draw(st.sampled_from(((), ("the_dtype_is_kept",)))),
    )
    contract = replace(contract, capabilities=complete_capabilities(contract))
    rules = draw(st.sampled_from(("", "heads>=2", "d_out%8 tokens<=64", "head_dim=even")))
    try:
        return contract.with_sizes(parse_sizes(rules)) if rules else contract
    except BadSizes:  # without heads there are not two
        reject()


@given(contracts(), st.text(max_size=20))
def test_any_contract_is_read_back(contract: Contract, title: str) -> None:
    again = read_back(replace(make_exercise(contract), title=title))
    assert (again.title, again.contract) == (title, contract)


BASE = """title = "Own"
name = "Own"
capabilities = ["full", "batch"]
{keys}
[arguments]
{arguments}
[parameters]
qkv = ["W_q", "W_k", "W_v"]
{tables}
"""
WRONG: Mapping[str, tuple[Mapping[str, str], str]] = {
    "a rule that is none": (
        {"keys": 'size_rules = "heads>1"'},
        "line 4: `heads>1` is no rule for a size",
    ),
    "rules that no sizes keep": (
        {"keys": 'size_rules = "d_out=7 heads=2"', "arguments": 'h = "heads"'},
        "line 4: Own has no sizes that keep",
    ),
    "a constant without a value": (
        {"arguments": 'rate = "constant"'},
        "line 6: a constant needs its `default`",
    ),
    "fields of what is no config": (
        {"arguments": 'h.quantity = "heads"\nh.fields.n = "heads"'},
        'only an argument that takes "config" has fields',
    ),
    "a field that takes nothing": (
        {"arguments": 'c.quantity = "config"\nc.fields.n = "hads"'},
        "line 7: there is no quantity 'hads'; did you mean 'heads'?",
    ),
    "a mask of one axis": (
        {"tables": "[call_form.mask]\naxes = 1"},
        "line 10: a mask has 2, 3 or 4 axes, not 1",
    ),
    "a mask of no dtype": (
        {"tables": '[call_form.mask]\ndtype = "boolean"'},
        "line 10: no mask has the type 'boolean'; did you mean 'bool'?",
    ),
    "no place": (
        {"tables": "[call_form]\nplaces = []"},
        "line 10: are counted from 0, first the output",
    ),
    "an unknown polarity": (
        {"tables": '[call_form.mask]\npolarity = "blocked"'},
        "`call_form.mask.polarity` knows no 'blocked'; did you mean 'block'?",
    ),
}


@pytest.mark.parametrize(("parts", "message"), WRONG.values(), ids=WRONG)
def test_what_is_wrong_is_told_with_its_line(parts: Mapping[str, str], message: str) -> None:
    text = BASE.format(**{"keys": "", "arguments": "", "tables": "", **parts})
    with pytest.raises(BadContract) as raised:
        read_exercise(Path("/course/own"), text)
    assert message in str(raised.value)
    assert "\n" not in str(raised.value)


def test_inputs_that_differ_from_x_are_a_form_of_their_own() -> None:
    text = BASE.format(keys='call = ["query", "key", "value"]', arguments="", tables="")
    contract = read_exercise(Path("/course/own"), text).contract
    assert contract.call_form == CallForm(("query", "key", "value"))


def test_a_waived_claim_is_not_asked() -> None:
    exercise = next(each for each in ALL if each.slug == "multi_head_attention")
    some = exercise.properties[5].name
    contract = replace(exercise.contract, waived=(some,))
    waived = {each.name for each in replace(exercise, contract=contract).properties}
    assert waived == {each.name for each in exercise.properties} - {some}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("it_equals_the_equation", "without 'it_equals_the_equation' nothing is judged"),
        ("it_is_nice", "'it_is_nice' is not a check of this exercise"),
    ],
)
def test_what_cannot_be_waived_is_told(name: str, message: str) -> None:
    text = BASE.format(keys=f'waived = ["{name}"]', arguments="", tables="")
    exercise = read_exercise(Path("/course/own"), text)
    with pytest.raises(BadContract, match="line 4") as raised:
        _ = exercise.properties
    assert message in str(raised.value)
