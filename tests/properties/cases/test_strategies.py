"""Cases are valid by construction, and shrink to the smallest."""

import ast
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import fields, replace
from math import prod
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import find, given, settings
from hypothesis import strategies as st
from hypothesis.errors import InvalidArgument, NoSuchExample

from headcheck.grader.sandbox.worker import calling
from headcheck.properties.cases import strategies
from headcheck.properties.cases.case_tensors import DTYPES, make_mask, make_parameters, make_tokens
from headcheck.properties.cases.case_text import format_case
from headcheck.properties.cases.case_transforms import at_least
from headcheck.properties.cases.small_cases import enumerate_smaller, list_starting_cases
from headcheck.properties.cases.strategies import (
    OFFSET,
    USUAL_SIZES,
    CaseInputs,
    apply_memory_layout,
    attention_inputs,
    cases,
    smaller_cases,
)
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MaskType, MemoryLayout
from headcheck.properties.terms.size_rules import BadSizes, parse_sizes
from tests.properties.contracts import (
    MASKED,
    MULTI_HEAD,
    PLAIN,
    SEARCH_SETTINGS,
    assert_allowed,
    every_contract,
    every_small_contract,
    get_contract,
)

LONG_SEARCH = settings(SEARCH_SETTINGS, max_examples=2000)
BROAD_SEARCH = settings(SEARCH_SETTINGS, max_examples=400)


def test_an_installed_package_and_a_checkout_draw_the_same() -> None:
    """Hypothesis also tries the numbers that stand in modules of a checkout."""
    tree = ast.parse(Path(strategies.__file__).read_text("utf-8"))
    numbers = [n.value for n in ast.walk(tree) if isinstance(n, ast.Constant)]
    assert max(n for n in numbers if isinstance(n, int)) < OFFSET


@every_contract
@given(data=st.data())
def test_cases_are_valid_by_construction(slug: str, data: st.DataObject) -> None:
    contract = get_contract(slug)
    case = data.draw(cases(contract, max_tokens=7, max_heads=4))
    assert_allowed(case, contract)
    assert contract.sizes is not None or (case.tokens <= 7 and case.heads <= 4)


@every_small_contract
@given(data=st.data())
def test_every_case_has_tensors(slug: str, data: st.DataObject) -> None:
    contract = get_contract(slug)
    case = data.draw(cases(contract, dtypes=("float64", "float32", "bfloat16")))
    assert make_tokens(case, contract).shape == (case.batch, case.tokens, case.d_in)
    shapes = {n: tuple(t.shape) for n, t in make_parameters(case, contract).items()}
    assert shapes["W_q"] == (case.d_out, case.d_in)
    held = not contract.mappings or contract.stores("b_q")
    assert ("b_q" in shapes) is (contract.has_biases(case) and held)
    assert (make_mask(case) is None) is (case.mask_form is MaskForm.NONE)


@every_contract
@given(data=st.data())
def test_fitting_any_case_makes_it_valid_and_is_done_once(slug: str, data: st.DataObject) -> None:
    contract = get_contract(slug)
    anything = data.draw(
        st.builds(
            Case,
            batch=st.integers(1, 4),
            tokens=st.integers(1, 20),
            context_length=st.integers(1, 20),
            d_in=st.integers(1, 9),
            heads=st.integers(1, 6),
            head_dim=st.integers(1, 7),
            bias=st.booleans(),
            dropout=st.sampled_from((0.0, 0.5)),
            mask_form=st.sampled_from(MaskForm),
            seed=st.integers(0, 9),
        )
    )
    assert_allowed(contract.fit(anything), contract)


@every_contract
def test_cases_shrink_to_the_smallest_that_the_contract_allows(slug: str) -> None:
    contract = get_contract(slug)
    smallest = contract.fit(Case(tokens=1, context_length=1))
    assert find(cases(contract), lambda case: True, settings=SEARCH_SETTINGS) == smallest


def test_cases_shrink_in_every_field_that_a_fault_does_not_need() -> None:
    def is_faulty(case: Case) -> bool:
        return case.heads >= 2 and case.tokens >= 3 and case.bias

    found = find(cases(MULTI_HEAD), is_faulty, settings=SEARCH_SETTINGS)
    assert found == Case(tokens=3, context_length=3, heads=2, bias=True)


def test_every_option_of_a_contract_is_drawn() -> None:
    drawn: set[tuple[str, object]] = set()

    def note(case: Case) -> bool:
        drawn.update((field.name, getattr(case, field.name)) for field in fields(case))
        return False

    for contract in (MULTI_HEAD, MASKED):
        with pytest.raises(NoSuchExample):
            find(cases(contract), note, settings=BROAD_SEARCH)
    for name, values in (
        ("batch", range(1, 4)),
        ("tokens", range(1, 13)),
        ("heads", range(1, 6)),
        ("head_dim", range(1, 7)),
        ("content", InputContent),
        ("memory", MemoryLayout),
        ("mask_form", MaskForm),
        ("mask_type", MaskType),
        ("dropout", (0.0, 0.1, 0.5)),
        ("bias", (False, True)),
    ):
        assert {(name, value) for value in values} <= drawn


@pytest.mark.parametrize(
    ("impossible", "message"),
    [
        (lambda: cases(MULTI_HEAD, max_tokens=0), "needs max_tokens >= 1$"),
        (lambda: cases(MULTI_HEAD, max_heads=0, max_d_in=0), "max_heads >= 1, max_d_in >= 1$"),
        (lambda: cases(MULTI_HEAD, dtypes=()), "needs a dtype$"),
        (lambda: cases(MULTI_HEAD, devices=(), contents=()), "needs a content, a device$"),
        (lambda: cases(MULTI_HEAD, dtypes=("float8",)), r"no dtypes of a case: \['float8'\]"),
        (lambda: cases(MULTI_HEAD, sizes=parse_sizes("d_out=7 heads=2")), "has no sizes"),
    ],
)
def test_nothing_to_draw_from_is_refused_at_once(
    impossible: Callable[[], object], message: str
) -> None:
    with pytest.raises((InvalidArgument, BadSizes), match=message):
        impossible()


def test_larger_sizes_are_drawn_where_they_are_asked_for_one_at_a_time() -> None:
    most = {"tokens": 300, "heads": 16, "head_dim": 128, "batch": 65, "d_in": 130}
    asked: dict[str, Any] = {f"max_{name}": size for name, size in most.items()}
    drawn: list[Case] = []

    def collect(case: Case) -> bool:
        drawn.append(case)
        return False

    with pytest.raises(NoSuchExample):
        find(cases(MULTI_HEAD, **asked), collect, settings=BROAD_SEARCH)
    for case in drawn:
        assert sum(getattr(case, name) > USUAL_SIZES[name] for name in most) <= 1
    largest = {name: max(getattr(case, name) for case in drawn) for name in most}
    assert all(USUAL_SIZES[name] < largest[name] <= most[name] for name in most), largest
    assert any(case.tokens in (64, 65, 127, 128, 129, 255, 256, 257) for case in drawn)


def test_a_large_case_shrinks_to_the_edge_of_the_fault() -> None:
    found = find(cases(MULTI_HEAD, max_tokens=300), lambda c: c.tokens > 64, settings=LONG_SEARCH)
    assert found == Case(tokens=65, context_length=65)


def test_a_transform_gives_the_cases_that_a_property_needs() -> None:
    strategy = cases(MULTI_HEAD, transform=at_least(tokens=3, heads=2))
    smallest = find(strategy, lambda case: True, settings=SEARCH_SETTINGS)
    assert smallest == Case(tokens=3, context_length=3, heads=2)


DRAWN_TWICE = """
import sys, types
from hypothesis import find, settings
from headcheck.exercises import BY_SLUG
from headcheck.properties.cases.strategies import cases
if len(sys.argv) > 1:
    import constants
contract, drawn = BY_SLUG["multi_head_attention"].contract, []
try:
    find(cases(contract, max_tokens=300), lambda case: drawn.append(case),
         settings=settings(derandomize=True, database=None, max_examples=200))
except Exception:
    pass
print(len(drawn), hash(tuple(map(str, drawn))))
"""


@pytest.mark.whole
def test_constants_of_other_code_change_no_example(tmp_path: Path) -> None:
    (tmp_path / "constants.py").write_text(f"NUMBERS = {list(range(300))}\n")
    environment = {**os.environ, "PYTHONHASHSEED": "0"}
    environment["PYTHONPATH"] = os.pathsep.join([*sys.path, str(tmp_path)])
    command = [sys.executable, "-c", DRAWN_TWICE]
    printed = {
        subprocess.check_output([*command, *more], env=environment, cwd=tmp_path, text=True)
        for more in ([], ["constants"])
    }
    assert len(printed) == 1 and printed.pop().startswith("200 ")


# ------------------------------------------------------------------ the tensors of a case


@every_small_contract
@given(data=st.data())
def test_inputs_are_those_of_their_case(slug: str, data: st.DataObject) -> None:
    contract = get_contract(slug)
    inputs = data.draw(attention_inputs(contract, dtypes=("float64", "float32", "bfloat16")))
    case = inputs.case
    assert inputs.x.dtype is DTYPES[case.dtype]
    batched = inputs.x if inputs.x.dim() == 3 else inputs.x[None]
    assert torch.equal(batched.double(), make_tokens(case, contract))
    assert inputs.parameters.W_q.dtype is inputs.x.dtype
    assert (inputs.mask is None) is (case.mask_form is MaskForm.NONE)
    assert all(bool(output.isfinite().all()) for output in inputs.expected.outputs)
    assert repr(inputs) == f"CaseInputs({format_case(case)!r})"


@given(attention_inputs(MASKED))
def test_the_exact_answer_of_inputs_is_close_to_itself_and_to_nothing_else(
    inputs: CaseInputs,
) -> None:
    outputs = inputs.expected.outputs
    inputs.assert_close(*outputs)
    for wrong in (outputs[0] + 1, outputs[0] * torch.nan):
        with pytest.raises(AssertionError, match=r"output 0 is off by up to .* on batch="):
            inputs.assert_close(wrong, *outputs[1:])


@pytest.mark.parametrize("memory", MemoryLayout)
@given(case=cases(MULTI_HEAD, layouts=[MemoryLayout.CONTIGUOUS]))
def test_a_layout_moves_numbers_and_changes_none(memory: MemoryLayout, case: Case) -> None:
    x = make_tokens(case, MULTI_HEAD)
    laid = apply_memory_layout(x, memory)
    if memory is MemoryLayout.EXPANDED:
        assert torch.equal(laid, x[:1].repeat(case.batch, 1, 1))
    else:
        assert torch.equal(laid, x)
        assert torch.equal(make_tokens(replace(case, memory=memory), MULTI_HEAD), x)
    # The worker, which knows no case, lays out in the same way.
    other = calling.apply_memory_layout(x, memory.value)
    assert (other.stride(), other.storage_offset()) == (laid.stride(), laid.storage_offset())


def test_layouts_are_what_they_are_called() -> None:
    x = torch.zeros(2, 3, 4)
    sliced = apply_memory_layout(x, MemoryLayout.SLICED)
    assert sliced.stride() == (36, 12, 1) and sliced.storage_offset() == 4
    assert apply_memory_layout(x, MemoryLayout.MISALIGNED).storage_offset() == 1


@given(data=st.data())
def test_smaller_cases_are_nowhere_larger(data: st.DataObject) -> None:
    case = data.draw(cases(MASKED) | cases(MULTI_HEAD))
    below = data.draw(smaller_cases(case))
    for field in fields(Case):
        own, other = getattr(case, field.name), getattr(below, field.name)
        if isinstance(own, int | float) and not isinstance(own, bool):
            assert other <= own
        else:
            assert other in (own, field.default)
    assert below.size <= case.size
    assert (below.dtype, below.device, below.seed) == (case.dtype, case.device, case.seed)


@given(data=st.data())
def test_smaller_cases_are_valid_after_fitting_and_still_no_larger(data: st.DataObject) -> None:
    case = data.draw(cases(MULTI_HEAD) | cases(MASKED) | cases(PLAIN))
    for contract in (MULTI_HEAD, MASKED, PLAIN):
        own = contract.fit(case)
        below = contract.fit(data.draw(smaller_cases(own)))
        assert_allowed(below, contract)
        assert below.size <= own.size


def test_the_simplest_case_has_only_itself_below() -> None:
    simplest = Case(tokens=1, context_length=1)
    assert find(smaller_cases(simplest), lambda case: True, settings=SEARCH_SETTINGS) == simplest


@given(case=cases(MASKED) | cases(MULTI_HEAD))
def test_few_smaller_cases_are_all_of_them_or_none(case: Case) -> None:
    few = enumerate_smaller(case, 200)
    sizes = ("batch", "tokens", "context_length", "d_in", "heads", "head_dim", "sharpness")
    options = ("bias", "dropout", "content", "memory", "mask_form", "mask_type")
    changed = sum(getattr(case, name) != getattr(Case(), name) for name in options)
    count = prod(getattr(case, name) for name in sizes) * 2**changed
    assert len(few) == (count if count <= 200 else 0)
    if few:
        assert case in few and len(set(few)) == count
        assert [c.size for c in few] == sorted(c.size for c in few)


@given(case=cases(MASKED) | cases(MULTI_HEAD))
def test_shrink_steps_of_a_case_are_smaller_and_as_plain_or_like_it(case: Case) -> None:
    there = list_starting_cases(case)
    assert len(set(there)) == len(there)
    for rung in there:
        assert rung.size < case.size
        assert (rung.dtype, rung.device, rung.seed) == (case.dtype, case.device, case.seed)
        assert rung.mask_form in (MaskForm.NONE, case.mask_form)
