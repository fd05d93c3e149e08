"""Contracts move parameters to and fro without loss, and call constructors as students expect."""

import inspect
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headcheck.exercises import ALL, BY_SLUG
from headcheck.properties.cases.case_tensors import make_parameters
from headcheck.properties.cases.strategies import cases
from headcheck.properties.contracts.contract import Argument, Capability, Contract, Entry
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Violation, ViolationKind
from headcheck.reference import Parameters
from tests.submissions import execute

SMALL = sorted(exercise.slug for exercise in ALL if exercise.contract.sizes is None)
STORED = [slug for slug in SMALL if BY_SLUG[slug].contract.mappings]
every_stored = pytest.mark.sampled("slug", STORED, STORED[::3])
CASE = Case(batch=2, tokens=3, context_length=7, d_in=5, heads=2, head_dim=3)


def contract_of(slug: str) -> Contract:
    return BY_SLUG[slug].contract


def store(contract: Contract, case: Case) -> tuple[Parameters, dict[str, Tensor]]:
    """The parameters of a case, and what a module holds of them."""
    drawn = make_parameters(case, contract)
    return drawn, dict(contract.to_stored(drawn, case))


# ---------------------------------------------------------------- stored and canonical


@every_stored
@given(data=st.data())
def test_canonical_undoes_stored(slug: str, data: st.DataObject) -> None:
    contract = contract_of(slug)
    case = data.draw(cases(contract))
    drawn, kept = store(contract, case)
    parameters, found = dict(drawn.items()), contract.to_canonical(kept, case)
    held = {name for slot in contract.mappings for name in slot.holds}
    assert set(found) == held & set(parameters)
    assert all(torch.equal(found[name], parameters[name]) for name in found)


@every_stored
@given(data=st.data())
def test_stored_undoes_canonical(slug: str, data: st.DataObject) -> None:
    contract = contract_of(slug)
    case = data.draw(cases(contract))
    generator = torch.Generator().manual_seed(case.seed)
    module = {
        path: torch.randn(shape, generator=generator)
        for path, shape in contract.get_parameter_shapes(case).items()
    }
    drawn = make_parameters(case, contract)
    again = dict(contract.to_stored(replace(drawn, **contract.to_canonical(module, case)), case))
    assert list(again) == list(module)
    assert all(torch.equal(again[path], module[path]) for path in module)


@pytest.mark.parametrize("slug", STORED)
def test_every_element_is_stored_exactly_once(slug: str) -> None:
    contract = contract_of(slug)
    case = contract.fit(replace(CASE, bias=True))
    drawn = make_parameters(case, contract)
    held = {name for slot in contract.mappings for name in slot.holds}
    named = [(name, tensor) for name, tensor in drawn.items() if name in held]
    sizes = [tensor.numel() for _, tensor in named]
    numbers = torch.arange(sum(sizes), dtype=torch.float64)
    filled = {
        name: piece.reshape(tensor.shape)
        for (name, tensor), piece in zip(named, numbers.split(sizes), strict=True)
    }
    kept = contract.to_stored(replace(drawn, **filled), case)
    assert torch.equal(torch.cat([tensor.flatten() for _, tensor in kept]).sort().values, numbers)


def test_separate_layers_are_stored_as_they_are() -> None:
    contract, case = contract_of("multi_head_attention"), replace(CASE, bias=True)
    p, kept = store(contract, case)
    assert list(kept) == [
        *("W_query.weight", "W_query.bias", "W_key.weight", "W_key.bias"),
        *("W_value.weight", "W_value.bias", "out_proj.weight", "out_proj.bias"),
    ]
    assert torch.equal(kept["W_key.weight"], p.W_k)


def test_raw_parameters_are_transposed() -> None:
    contract = contract_of("self_attention_v1")
    case = contract.fit(CASE)
    p, kept = store(contract, case)
    assert torch.equal(kept["W_query"], p.W_q.T)
    names = ("W_query", "W_key", "W_value")
    assert contract.get_parameter_shapes(case) == dict.fromkeys(names, (5, 3))


def test_a_fused_layer_holds_queries_then_keys_then_values() -> None:
    contract = contract_of("causal_self_attention")
    case = contract.fit(CASE)
    p, kept = store(contract, case)
    assert torch.equal(kept["c_attn.weight"], torch.cat([p.W_q, p.W_k, p.W_v]))
    assert p.b_q is not None and p.b_k is not None and p.b_v is not None
    assert torch.equal(kept["c_attn.bias"], torch.cat([p.b_q, p.b_k, p.b_v]))


def test_each_head_of_a_wrapper_holds_its_own_rows() -> None:
    contract = contract_of("multi_head_wrapper")
    p, kept = store(contract, CASE)
    assert torch.equal(kept["heads.0.W_value.weight"], p.W_v[:3])
    assert torch.equal(kept["heads.1.W_value.weight"], p.W_v[3:])
    assert len(kept) == 6


def test_a_bias_that_the_case_lacks_is_not_stored() -> None:
    contract = contract_of("multi_head_attention")
    assert "W_query.bias" not in contract.get_parameter_shapes(CASE)
    assert "W_query.bias" in contract.get_parameter_shapes(replace(CASE, bias=True))
    assert "out_proj.bias" in contract.get_parameter_shapes(CASE)


def test_paths_say_the_shapes_of_what_is_stored() -> None:
    for exercise in ALL:
        case = exercise.contract.fit(CASE)
        _, kept = store(exercise.contract, case)
        shapes = {path: tuple(tensor.shape) for path, tensor in kept.items()}
        assert exercise.contract.get_parameter_shapes(case) == shapes, exercise.slug


def test_canonical_carries_gradients_over() -> None:
    contract = contract_of("causal_self_attention")
    case = contract.fit(CASE)
    kept = {path: t.requires_grad_() for path, t in store(contract, case)[1].items()}
    contract.to_canonical(kept, case)["W_k"].sum().backward()
    grad = kept["c_attn.weight"].grad
    assert grad is not None
    q, k, v = grad.chunk(3)
    assert float(k.min()) == 1
    assert float(q.abs().max()) == float(v.abs().max()) == 0


@pytest.mark.parametrize(
    ("change", "got"),
    [({}, "nothing"), ({"W_key.weight": torch.zeros(6, 4)}, "shape (6, 4)")],
)
def test_a_tensor_that_is_missing_or_of_another_shape_is_named(
    change: dict[str, Tensor], got: str
) -> None:
    contract = contract_of("multi_head_attention")
    _, kept = store(contract, CASE)
    del kept["W_key.weight"]
    with pytest.raises(Violation) as caught:
        contract.to_canonical({**kept, **change}, CASE)
    v = caught.value
    assert (v.kind, v.where) == (ViolationKind.SHAPE, "`W_key.weight`")
    assert (v.expected, v.got) == ("shape (6, 5)", got)


# ---------------------------------------------------------------------------- exchanged


@pytest.mark.parametrize("slug", sorted(BY_SLUG))
def test_exchanging_twice_is_nothing(slug: str) -> None:
    contract = contract_of(slug)
    other = contract.swap_query_and_key()
    if other is None:
        fused = any(len(slot.holds) > 1 for slot in contract.mappings)
        stateless = not contract.has(Capability.MODULE, Capability.PROJECTED)
        unlike = contract.has(Capability.LATENT)  # keys are made of latents
        assert fused or stateless or unlike or contract.entry is Entry.TRANSFER
        return
    assert other != contract
    assert other.swap_query_and_key() == contract


def test_exchanging_moves_queries_and_keys_and_nothing_else() -> None:
    contract, case = contract_of("multi_head_attention"), replace(CASE, bias=True)
    other = contract.swap_query_and_key()
    assert other is not None
    p, kept = store(contract, case)
    moved = dict(other.to_stored(p, case))
    for part in ("weight", "bias"):
        assert torch.equal(moved[f"W_query.{part}"], kept[f"W_key.{part}"])
        assert torch.equal(moved[f"W_key.{part}"], kept[f"W_query.{part}"])
        assert torch.equal(moved[f"W_value.{part}"], kept[f"W_value.{part}"])
        assert torch.equal(moved[f"out_proj.{part}"], kept[f"out_proj.{part}"])
    assert replace(other, mappings=contract.mappings) == contract


def test_bias_mappings_are_marked() -> None:
    assert ParameterMapping("q.bias", ("b_q",)).is_bias
    assert ParameterMapping("c_attn.bias", ("b_q", "b_k", "b_v")).is_bias
    # The output layer's is not an option.
    assert not ParameterMapping("out_proj.bias", ("b_o",)).is_bias
    assert not ParameterMapping("q.weight", ("W_q",)).is_bias


# --------------------------------------------------------------------------- arguments


def test_an_optional_argument_is_passed_only_when_it_differs() -> None:
    contract = contract_of("multi_head_attention")
    plain = {"d_in": 5, "d_out": 6, "context_length": 7, "dropout": 0.0, "num_heads": 2}
    assert contract.build_arguments(CASE) == plain
    assert contract.build_arguments(replace(CASE, bias=True)) == {**plain, "qkv_bias": True}


def test_arguments_keep_the_order_of_the_statement() -> None:
    contract = contract_of("multi_head_attention")
    assert list(contract.build_arguments(replace(CASE, bias=True))) == [
        *("d_in", "d_out", "context_length", "dropout", "num_heads", "qkv_bias")
    ]


def test_an_argument_with_a_default_that_is_not_optional_is_always_passed() -> None:
    argument = Argument("dropout", "dropout", default=0.0)
    contract = Contract(name="any", arguments=(argument,))
    assert contract.build_arguments(CASE) == {"dropout": 0.0}


def test_wrapped_heads_receive_the_width_of_one_head() -> None:
    arguments = contract_of("multi_head_wrapper").build_arguments(CASE)
    assert (arguments["d_out"], arguments["num_heads"]) == (3, 2)


def test_a_config_is_one_argument() -> None:
    contract = contract_of("causal_self_attention")
    arguments = contract.build_arguments(contract.fit(CASE))
    config = arguments["config"]
    assert list(arguments) == ["config"]
    assert isinstance(config, dict)
    assert (config["n_embd"], config["n_head"], config["block_size"]) == (6, 2, 7)


def test_a_builder_of_a_fixed_size_takes_nothing() -> None:
    contract = contract_of("gpt2_size")
    assert contract.build_arguments(contract.fit(CASE)) == {}


@pytest.mark.parametrize("slug", sorted(BY_SLUG))
def test_solutions_take_the_arguments_by_these_names(slug: str) -> None:
    exercise = BY_SLUG[slug]
    contract = exercise.contract
    if contract.entry in (Entry.CLASS, Entry.BUILDER):
        wanted = execute(exercise.solution)[contract.name]
        case = contract.fit(replace(CASE, bias=True))
        bound = inspect.signature(wanted).bind(**contract.build_arguments(case))
        assert list(bound.arguments) == list(contract.build_arguments(case))


# -------------------------------------------------------------------------------- capabilities


@pytest.mark.parametrize("slug", sorted(BY_SLUG))
def test_capabilities_do_not_contradict_each_other(slug: str) -> None:
    contract = contract_of(slug)
    kinds = contract.has(Capability.CAUSAL) + contract.has(Capability.FULL)
    assert kinds == contract.has(Capability.ATTENTION)
    for option, of in (
        (Capability.BIAS_OPTION, Capability.BIAS),
        (Capability.OUTPUT_BIAS, Capability.OUTPUT_PROJECTION),
        (Capability.OUTPUT_PROJECTION, Capability.PROJECTED),
        (Capability.UNIFORM, Capability.INITIALISED),
        (Capability.INITIALISED, Capability.MODULE),
        (Capability.DIVISIBLE, Capability.HEADS),
        (Capability.MASK, Capability.FULL),
        (Capability.MASK, Capability.TAKES_MASK),
        (Capability.PADDING, Capability.TAKES_MASK),
    ):
        assert contract.has(of) or not contract.has(option)
    assert contract.has(Capability.MODULE) is not (contract.entry is Entry.FUNCTION)
    assert contract.has(Capability.TRANSFER) is (contract.entry is Entry.TRANSFER)


def test_biases_are_there_when_asked_for_or_always() -> None:
    option, always = contract_of("multi_head_attention"), contract_of("masked_multi_head")
    never = contract_of("self_attention_v1")
    biased = replace(CASE, bias=True)
    assert [option.has_biases(c) for c in (CASE, biased)] == [False, True]
    assert [always.has_biases(c) for c in (CASE, biased)] == [True, True]
    assert [never.has_biases(c) for c in (CASE, biased)] == [False, False]
