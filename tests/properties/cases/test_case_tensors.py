"""The tensors of a case: the same everywhere, as sharp as asked, and what the case says of them."""

import hashlib
import itertools
import math
import os
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from headcheck.exercises import ALL, BY_SLUG
from headcheck.properties.cases.case_set import generate_case_set
from headcheck.properties.cases.case_tensors import (
    DTYPES,
    MASK_DTYPES,
    STREAMS,
    draw_normal,
    make_mask,
    make_parameters,
    make_tokens,
    round_to_dtype,
)
from headcheck.properties.cases.strategies import cases
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.terms.case import Case, InputContent, MaskForm, MaskType, MemoryLayout
from headcheck.reference import multi_head_attention

MULTI_HEAD = BY_SLUG["multi_head_attention"].contract
MASKED = BY_SLUG["masked_multi_head"].contract
SIMPLIFIED = BY_SLUG["simplified_attention"].contract
FREE = [exercise.contract for exercise in ALL if exercise.contract.sizes is None]
CASE = Case(batch=3, tokens=5, context_length=5, d_in=4, heads=2, head_dim=3, seed=11)


def tensors_of(case: Case, contract: Contract) -> dict[str, Tensor]:
    made = {"x": make_tokens(case, contract), **dict(make_parameters(case, contract).items())}
    mask = make_mask(case)
    return made if mask is None else {**made, "mask": mask}


# ------------------------------------------------------------------ the same everywhere

DIGEST = """
import hashlib, torch
torch.set_num_threads(2)
torch.manual_seed(2)
torch.set_default_dtype(torch.float64)
from headcheck.exercises import ALL
from headcheck.properties.cases.case_tensors import make_mask, make_parameters, make_tokens
from headcheck.properties.cases.case_set import generate_case_set
found = hashlib.sha256()
for contract in (e.contract for e in ALL if e.contract.sizes is None):
    for case in generate_case_set(contract, 12):
        weights = (t for _, t in make_parameters(case, contract).items())
        made = [make_tokens(case, contract), *weights]
        mask = make_mask(case)
        for tensor in made if mask is None else [*made, mask]:
            found.update(tensor.contiguous().numpy().tobytes())
print(found.hexdigest())
"""


def test_the_tensors_are_the_same_in_every_process() -> None:
    here = hashlib.sha256()
    for contract in FREE:
        for case in generate_case_set(contract, 12):
            for tensor in tensors_of(case, contract).values():
                here.update(tensor.contiguous().numpy().tobytes())
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONHASHSEED": "77"}
    other = subprocess.check_output([sys.executable, "-c", DIGEST], env=environment, text=True)
    assert other.strip() == here.hexdigest()


def test_torch_s_own_random_numbers_neither_matter_nor_move() -> None:
    torch.manual_seed(1)
    before = torch.get_rng_state()
    first = tensors_of(replace(CASE, mask_form=MaskForm.QUERY_KEY), MASKED)
    assert bool((torch.get_rng_state() == before).all())
    torch.manual_seed(2)
    again = tensors_of(replace(CASE, mask_form=MaskForm.QUERY_KEY), MASKED)
    assert all(torch.equal(first[name], again[name]) for name in first)


def test_every_tensor_of_every_seed_has_numbers_of_its_own() -> None:
    drawn = itertools.product(range(200), STREAMS)
    first = [draw_normal(replace(CASE, seed=seed), name, 1).item() for seed, name in drawn]
    assert len(set(first)) == len(first)


def test_options_do_not_change_the_tensors_they_are_not_about() -> None:
    plain = tensors_of(CASE, MULTI_HEAD)
    biased = tensors_of(replace(CASE, bias=True, dropout=0.5), MULTI_HEAD)
    assert set(biased) - set(plain) == {"b_q", "b_k", "b_v"}
    assert all(torch.equal(plain[name], biased[name]) for name in plain)


# ---------------------------------------------------------------------------- rounding


@given(data=st.data())
def test_all_tensors_survive_the_dtype_of_the_case(data: st.DataObject) -> None:
    case = data.draw(cases(MULTI_HEAD, dtypes=tuple(DTYPES)))
    for name, tensor in tensors_of(case, MULTI_HEAD).items():
        assert tensor.dtype == torch.float64, name
        assert torch.equal(tensor.to(DTYPES[case.dtype]).double(), tensor), name
        assert bool(tensor.isfinite().all()), name


def test_a_smaller_dtype_rounds_the_same_numbers() -> None:
    exact = tensors_of(replace(CASE, bias=True), MULTI_HEAD)
    for dtype, unit in (("float32", 2.0**-24), ("bfloat16", 2.0**-8), ("float16", 2.0**-11)):
        case = replace(CASE, bias=True, dtype=dtype)
        for name, tensor in tensors_of(case, MULTI_HEAD).items():
            assert torch.equal(tensor, round_to_dtype(exact[name], case)), name
            assert not torch.equal(tensor, exact[name]), name
            assert bool(((tensor - exact[name]).abs() <= unit * exact[name].abs()).all()), name


# --------------------------------------------------------------------------- sharpness


def spread_of_scores(contract: Contract, case: Case, seeds: int) -> float:
    """The root mean square of the scaled scores between different tokens, over many seeds."""
    off_diagonal = ~torch.eye(case.tokens, dtype=torch.bool)
    total = 0.0
    for seed in range(seeds):
        own = replace(case, seed=seed)
        x, parameters = make_tokens(own, contract), make_parameters(own, contract)
        exact = multi_head_attention(x, parameters, case.heads, scale=contract.scale)
        total += float((exact.scores[..., off_diagonal] ** 2).mean())
    return math.sqrt(total / seeds)


@pytest.mark.parametrize("sharpness", [1, 2, 5, 8])
@pytest.mark.parametrize(("d_in", "heads", "head_dim"), [(16, 2, 8), (5, 3, 4), (64, 1, 16)])
def test_scores_are_as_sharp_as_the_case_says(
    sharpness: int, d_in: int, heads: int, head_dim: int
) -> None:
    case = Case(
        tokens=8,
        context_length=8,
        d_in=d_in,
        heads=heads,
        head_dim=head_dim,
        sharpness=sharpness,
    )
    # Over 100 seeds the ratio is within 0.92 and 1.12 for these sizes.
    assert spread_of_scores(MULTI_HEAD, case, 100) / sharpness == pytest.approx(1, abs=0.15)


@pytest.mark.parametrize("sharpness", [1, 2, 5, 8])
@pytest.mark.parametrize("d_in", [1, 4, 32])
def test_scores_without_projections_are_as_sharp_as_the_case_says(
    sharpness: int, d_in: int
) -> None:
    case = SIMPLIFIED.fit(Case(tokens=8, head_dim=d_in, sharpness=sharpness))
    assert spread_of_scores(SIMPLIFIED, case, 200) / sharpness == pytest.approx(1, abs=0.15)


def test_values_and_output_keep_the_size_of_the_input_whatever_the_sharpness() -> None:
    wide = replace(CASE, d_in=64, head_dim=32)
    for sharpness in (1, 8):
        p = make_parameters(replace(wide, sharpness=sharpness), MULTI_HEAD)
        assert p.W_o is not None
        assert float(p.W_v.std() * 8) == pytest.approx(1, abs=0.1)
        assert float(p.W_o.std() * 8) == pytest.approx(1, abs=0.1)
        assert float(p.W_q.std() * 8) == pytest.approx(math.sqrt(sharpness), rel=0.1)


def test_there_are_the_parameters_that_the_contract_has() -> None:
    for contract in FREE:
        for bias in (False, True):
            case = contract.fit(replace(CASE, bias=bias))
            present = {name for name, _ in make_parameters(case, contract).items()}
            for name in ("b_q", "b_k", "b_v"):
                held = not contract.mappings or contract.stores(name)
                assert (name in present) is (contract.has_biases(case) and held)
            assert ("W_o" in present) is contract.has(Capability.OUTPUT_PROJECTION)
            assert ("b_o" in present) is contract.has(Capability.OUTPUT_BIAS)


def test_without_projections_the_parameters_are_the_identity() -> None:
    case = SIMPLIFIED.fit(Case(head_dim=3))
    for name, tensor in make_parameters(case, SIMPLIFIED).items():
        assert torch.equal(tensor, torch.eye(3, dtype=torch.float64)), name


# ------------------------------------------------------------------------------- masks

FORMS = [form for form in MaskForm if form is not MaskForm.NONE]


@pytest.mark.parametrize("kind", MaskType)
@pytest.mark.parametrize("form", FORMS)
def test_masks_broadcast_and_block_no_row_whole(form: MaskForm, kind: MaskType) -> None:
    assert make_mask(CASE) is None
    written = {
        MaskForm.QUERY_KEY: (5, 5),
        MaskForm.ONE_ONE_QUERY_KEY: (1, 1, 5, 5),
        MaskForm.BATCH_ONE_QUERY_KEY: (3, 1, 5, 5),
        MaskForm.BATCH_HEAD_QUERY_KEY: (3, 2, 5, 5),
        MaskForm.BATCH_ONE_ONE_KEY: (3, 1, 1, 5),
        MaskForm.ONE_HEAD_QUERY_KEY: (1, 2, 5, 5),
    }
    for seed in range(100):
        mask = make_mask(replace(CASE, mask_form=form, mask_type=kind, seed=seed))
        assert mask is not None
        assert mask.dtype == MASK_DTYPES[kind]
        assert tuple(mask.shape) == written[form]
        assert bool(((mask == 0) | (mask == 1)).all())
        assert bool((mask.expand(3, 2, 5, 5) != 0).any(-1).all())


@pytest.mark.parametrize("form", FORMS)
def test_masks_of_one_token_let_it_see_itself(form: MaskForm) -> None:
    for seed in range(20):
        mask = make_mask(replace(CASE, tokens=1, context_length=1, mask_form=form, seed=seed))
        assert mask is not None and bool(mask.all())


def test_the_type_of_a_mask_does_not_change_what_it_hides() -> None:
    for form in FORMS:
        masks = [make_mask(replace(CASE, mask_form=form, mask_type=kind)) for kind in MaskType]
        hidden = [mask == 0 for mask in masks if mask is not None]
        assert len(hidden) == 3
        assert all(torch.equal(hidden[0], other) for other in hidden)


def test_masks_hide_a_good_part() -> None:
    long = replace(CASE, tokens=60, context_length=60, mask_form=MaskForm.QUERY_KEY)
    mask = make_mask(long)
    assert mask is not None
    assert float(mask.double().mean()) == pytest.approx(0.6, abs=0.05)


# ------------------------------------------------------------------ content and memory


def test_normal_tokens_are_standard_normal() -> None:
    x = make_tokens(replace(CASE, tokens=100, context_length=100, d_in=50), MULTI_HEAD)
    assert float(x.mean()) == pytest.approx(0, abs=0.03)
    assert float(x.std()) == pytest.approx(1, abs=0.03)


@pytest.mark.parametrize("tokens", [1, 2, 5, 8])
def test_repeated_tokens_repeat(tokens: int) -> None:
    case = replace(CASE, tokens=tokens, context_length=tokens)
    plain = make_tokens(case, MULTI_HEAD)
    x = make_tokens(replace(case, content=InputContent.REPEATED), MULTI_HEAD)
    half = tokens // 2
    assert torch.equal(x[:, :half], plain[:, :half])
    assert torch.equal(x[:, half:], plain[:, : tokens - half])


@pytest.mark.parametrize("tokens", [1, 2, 5])
def test_one_token_is_zero_or_an_outlier(tokens: int) -> None:
    case = replace(CASE, tokens=tokens, context_length=tokens)
    plain = make_tokens(case, MULTI_HEAD)
    for content, factor in ((InputContent.ZERO, 0), (InputContent.OUTLIER, 30)):
        wanted = plain.clone()
        wanted[:, tokens // 2] *= factor
        assert torch.equal(make_tokens(replace(case, content=content), MULTI_HEAD), wanted)


def test_only_an_expanded_batch_has_other_numbers() -> None:
    plain = make_tokens(CASE, MULTI_HEAD)
    transposed = make_tokens(replace(CASE, memory=MemoryLayout.TRANSPOSED), MULTI_HEAD)
    expanded = make_tokens(replace(CASE, memory=MemoryLayout.EXPANDED), MULTI_HEAD)
    assert torch.equal(transposed, plain)
    assert torch.equal(expanded, plain[:1].expand(3, -1, -1))
    # Whoever changes one sequence of it must not change them all.
    assert expanded.is_contiguous()
    assert not torch.equal(plain[0], plain[1])
