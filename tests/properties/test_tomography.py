"""The weights that a module used are recovered from its output alone, right or wrong."""

import math
from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor, nn

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_tensors import draw_normal, round_to_dtype
from headcheck.properties.cases.strategies import cases
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.harness import tomography
from headcheck.properties.harness.harness import Harness, LiveContext
from headcheck.properties.terms.case import Case, MaskForm
from headcheck.reference import attention_weights, causal_mask, split_heads
from tests.properties.modules import MultiHeadAttention
from tests.submissions import load_source

LAYOUTS = {
    "multi_head_attention": "separate layers",
    "causal_self_attention": "one fused layer",
    "fused_causal_self_attention": "one fused layer, torch's own attention",
    "multi_head_wrapper": "a module for each head",
    "looped_causal_self_attention": "raw parameters for each head",
    "self_attention_v1": "raw parameters, no mask",
    "masked_multi_head": "separate layers, no mask, two results",
    "self_attention_v2": "separate layers, no output layer",
}
CONTRACT = BY_SLUG["multi_head_attention"].contract
SIZES = st.builds(
    Case,
    tokens=st.integers(2, 64) | st.integers(2, 6),
    context_length=st.just(64),
    d_in=st.integers(2, 9),
    heads=st.integers(1, 16),
    head_dim=st.integers(1, 6),
    bias=st.booleans(),
    sharpness=st.integers(1, 8),
    seed=st.integers(0, 99),
)
Weights = Callable[[Tensor, Tensor], Tensor]


def solved(slug: str, case: Case) -> LiveContext:
    """The solution of an exercise, on a case."""
    exercise = BY_SLUG[slug]
    return load_source(exercise.solution, exercise.contract).create_context(case)


def directly(context: LiveContext, weights: Weights) -> Tensor:
    """The weights of the content, computed from queries and keys as they are."""
    case, p = context.case, tomography.make_routing_parameters(context)
    content = case.d_in - tomography.compute_payload_width(case)
    x = round_to_dtype(draw_normal(case, "x", case.tokens, content), case)
    query, key = (split_heads(x @ w[:, :content].T, case.heads) for w in (p.W_q, p.W_k))
    return weights(query, key)


def right(mask: Tensor | None) -> Weights:
    return lambda query, key: attention_weights(query, key, mask)


def wanted_by(contract: Contract, case: Case) -> Weights:
    return right(causal_mask(case.tokens) if contract.has(Capability.CAUSAL) else None)


@pytest.mark.parametrize("slug", LAYOUTS, ids=LAYOUTS.values())
@settings(max_examples=12)
@given(data=st.data())
def test_the_weights_of_every_layout_are_recovered(slug: str, data: st.DataObject) -> None:
    contract = BY_SLUG[slug].contract
    case = tomography.fit_for_recovery(contract.fit(data.draw(SIZES)))
    assert case is not None
    context = solved(slug, contract.fit(case))
    seen, wanted = tomography.recover_weights(context), directly(context, wanted_by(contract, case))
    assert seen.weights.shape == (case.heads, case.tokens, case.tokens)
    assert float((seen.weights - wanted).abs().max()) <= 1e-12
    assert float((seen.expected - wanted).abs().max()) <= 1e-12
    assert bool(((seen.weights - seen.expected).abs() <= seen.tolerance.exact).all())


@pytest.mark.parametrize(
    ("d_in", "heads", "head_dim", "tokens"),
    [(2, 1, 2, 64), (2, 16, 1, 64), (3, 1, 1, 17), (64, 4, 32, 64), (9, 16, 3, 33), (2, 2, 1, 2)],
)
def test_the_extremes_are_recovered(d_in: int, heads: int, head_dim: int, tokens: int) -> None:
    case = Case(tokens=tokens, context_length=64, d_in=d_in, heads=heads, head_dim=head_dim)
    context = solved("multi_head_attention", replace(case, sharpness=2, bias=True))
    wanted = directly(context, right(causal_mask(tokens)))
    assert float((tomography.recover_weights(context).weights - wanted).abs().max()) <= 1e-12


def test_float32_weights_are_recovered_as_exactly_as_float32_is() -> None:
    case = Case(tokens=20, context_length=20, d_in=8, heads=4, head_dim=3, dtype="float32")
    context = solved("multi_head_attention", case)
    seen, wanted = tomography.recover_weights(context), directly(context, right(causal_mask(20)))
    assert 0 < float((seen.weights - wanted).abs().max()) <= 1e-6
    assert bool(((seen.weights - seen.expected).abs() <= seen.tolerance.exact).all())


# -------------------------------------------------------------------------- planted faults


def attention_with(weights: Weights) -> type[nn.Module]:
    """Multi-head attention that weighs by any function of queries and keys."""

    class Weighing(MultiHeadAttention):
        def average(self, queries: Tensor, keys: Tensor, values: Tensor) -> Tensor:
            return weights(queries, keys) @ values

    return Weighing


def scores_of(query: Tensor, key: Tensor, scale: float = 1.0) -> Tensor:
    hidden = ~causal_mask(query.shape[-2])
    return (query @ key.mT * scale / math.sqrt(query.shape[-1])).masked_fill(hidden, -math.inf)


def masked_afterwards(query: Tensor, key: Tensor) -> Tensor:
    return attention_weights(query, key) * causal_mask(query.shape[-2])


def diagonal_hidden(query: Tensor, key: Tensor) -> Tensor:
    return attention_weights(query, key, causal_mask(query.shape[-2]).tril(-1))


FAULTS: dict[str, Weights] = {
    "no mask": right(None),
    "masked after the softmax": masked_afterwards,
    "diagonal hidden": diagonal_hidden,
    "softmax over the queries": lambda q, k: scores_of(q, k).softmax(-2).nan_to_num(),
    "not scaled": lambda q, k: scores_of(q, k, math.sqrt(q.shape[-1])).softmax(-1),
    "scale off by 1 %": lambda q, k: scores_of(q, k, 1.01).softmax(-1),
    "query and key exchanged": lambda q, k: scores_of(k, q).softmax(-1),
    "heads reversed": lambda q, k: scores_of(q.flip(-3), k.flip(-3)).softmax(-1),
    "the first head's keys for all": lambda q, k: scores_of(q, k[..., :1, :, :]).softmax(-1),
    "even weights": lambda q, k: scores_of(0 * q, k).softmax(-1),
    "doubled weights": lambda q, k: 2 * scores_of(q, k).softmax(-1),
    "negative weights": lambda q, k: 2 * scores_of(q, k).softmax(-1) - 1 / k.shape[-2],
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("tokens", [2, 7, 30])
def test_wrong_weights_are_recovered_as_they_are(fault: str, tokens: int) -> None:
    case = Case(tokens=tokens, context_length=30, d_in=6, heads=3, head_dim=4, sharpness=2, seed=3)
    made = {"MultiHeadAttention": attention_with(FAULTS[fault])}
    # Not through a bench's own contract: it would find the exchanged names and put them right.
    context = LiveContext(Harness(make_subject(made), CONTRACT), CONTRACT, case)
    seen = tomography.recover_weights(context)
    assert float((seen.weights - directly(context, FAULTS[fault])).abs().max()) <= 1e-12
    off = (seen.weights - seen.expected).abs() > seen.tolerance.float32
    assert bool(off.any()), "and nobody would have noticed"


# ------------------------------------------------------------------------------ its parts


@given(case=SIZES)
def test_one_sequence_shows_no_more_columns_than_fit(case: Case) -> None:
    width = tomography.compute_payload_width(case)
    assert 1 <= width <= case.head_dim
    assert width <= case.d_in // 2 or width == 1
    # There must be content left to attend by.
    assert case.d_in - width >= 1


def test_the_payload_never_reaches_queries_and_keys() -> None:
    context = solved("multi_head_attention", Case(tokens=4, d_in=6, heads=2, head_dim=3, bias=True))
    p = tomography.make_routing_parameters(context)
    width = tomography.compute_payload_width(context.case)
    assert float(p.W_q[:, -width:].abs().max()) == float(p.W_k[:, -width:].abs().max()) == 0
    assert float(p.W_v[:, :-width].abs().max()) == 0
    for name in ("b_q", "b_k", "b_v", "b_o"):
        assert float(dict(p.items())[name].abs().max()) == 0


@pytest.mark.parametrize("slug", LAYOUTS)
@given(data=st.data())
def test_possible_cases_stay_possible_under_the_contract(slug: str, data: st.DataObject) -> None:
    contract = BY_SLUG[slug].contract
    asked = tomography.fit_for_recovery(data.draw(cases(contract)))
    assert asked is not None
    case = contract.fit(asked)
    assert case.d_in >= 2
    assert case.tokens >= 2
    assert case.mask_form is MaskForm.NONE
    assert tomography.fit_for_recovery(case) == case
