"""The catalogue: each entry is a mistake, and no two are the same."""

import itertools
from collections.abc import Sequence
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
import torch
from torch import Tensor

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.properties.cases.case_tensors import make_parameters, make_tokens
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.mistakes.catalogue import (
    ALL,
    AROUND_ATTENTION,
    DETERMINISTIC,
    DROPOUT,
    EQUATION,
    LATENTS,
    OF_SOME_CONTRACTS,
    Mistake,
)
from headcheck.properties.mistakes.catalogue.alignment import ALIGNMENT
from headcheck.properties.mistakes.evaluation import MemoisedEvaluator, make_attention_inputs
from headcheck.properties.mistakes.pipeline import (
    CORRECT,
    STEP_NAMES,
    WITHOUT_ATTENTION,
    AttentionInputs,
    Pipeline,
)
from headcheck.properties.terms.case import Case
from headcheck.reference import (
    PLAIN,
    Parameters,
    RotaryScaling,
    Variant,
    causal_lower_right_mask,
    causal_mask,
    multi_head_attention,
    sliding_window_mask,
)
from tests.kinds.bank import KINDS

ALIKE = {
    frozenset({"one_head", "heads_scored_together"}): "one wide head adds up the heads' scores",
    frozenset({"values_returned", "own_value_only"}): "the weights of a query sum to one",
}
"""Mistakes that no output tells apart without the weights, and why."""
ASKED_APART = {
    frozenset({"distances_not_used", "scores_not_limited"}),
    frozenset({"relative_numbers_not_added", "scores_not_limited"}),
    frozenset({"distances_not_used", "relative_numbers_not_added"}),
    frozenset({"no_softmax", "shares_not_divided"}),
}
"""mistakes that are the same, and never tried on the same submission"""


def numbers(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make_masks(heads: int, tokens: int) -> dict[str, Tensor | None]:
    """The masks by name; each hides something, but for the last."""
    drawn = numbers(30, 2, heads, tokens, tokens) < 0.4
    drawn[..., 0] = True
    padding = torch.tensor([[True] * tokens, [True] * (tokens - 2) + [False] * 2])[:, None, None]
    places = torch.arange(tokens)
    both_sides = torch.stack([(places > 0) & (places < 3), (places > 1) & (places != 4)])
    return {
        "causal": causal_mask(tokens),
        "drawn": drawn,
        "padding": padding,
        "both sides": both_sides[:, None, None],
        "lengths": places < (places[:, None] * 2 % tokens + 1).expand(2, 1, -1, 1),
        "documents": (places[:, None] // 2 == places // 2).expand(2, 1, -1, -1),
        "none": None,
    }


def given(
    mask: str = "causal",
    *,
    heads: int = 3,
    head_dim: int = 4,
    d_in: int = 7,
    tokens: int = 5,
    spread: float = 1.5,
    scale: float | None = None,
    plain: bool = False,
    kv_heads: int = 0,
) -> AttentionInputs:
    """Sizes that differ from each other, and scores that are sharp.

    There are biases and an output layer, unless it is to be plain.
    """
    d = heads * head_dim
    d_kv = (kv_heads or heads) * head_dim
    rows = {"q": d, "k": d_kv, "v": d_kv, "o": d}
    layers = {f"W_{name}": numbers(i, rows[name], d_in) for i, name in enumerate("qkv")}
    layers = {name: weight / d_in**0.5 for name, weight in layers.items()}
    layers |= {"W_q": layers["W_q"] * spread, "W_k": layers["W_k"] * spread}
    more = {f"b_{name}": numbers(10 + i, rows[name]) for i, name in enumerate("qkvo")}
    more["W_o"] = numbers(5, d, d) / d**0.5
    x = numbers(20, 2, tokens, d_in)
    x[0, 2] = 0
    return AttentionInputs(
        x=x,
        parameters=Parameters(**layers, **({} if plain else more)),
        heads=heads,
        may_attend=make_masks(heads, tokens)[mask],
        scale=head_dim**-0.5 if scale is None else scale,
        context_length=tokens + 3,
        causal=mask == "causal",
        wanted=("output",) if mask == "causal" else ("output", "weights"),
    )


def with_sinks(inputs: AttentionInputs) -> AttentionInputs:
    return replace(inputs, parameters=replace(inputs.parameters, sinks=numbers(60, inputs.heads)))


def with_lambdas(inputs: AttentionInputs) -> AttentionInputs:
    lambdas, width = numbers(63, inputs.heads), inputs.head_dim // 2
    parameters = replace(inputs.parameters, lambdas=lambdas)
    return replace(inputs, parameters=parameters, scale=width**-0.5)


def with_gate(inputs: AttentionInputs) -> AttentionInputs:
    gate = numbers(61, inputs.d_out, inputs.d_in)
    return replace(inputs, parameters=replace(inputs.parameters, W_gate=gate))


def with_norms(inputs: AttentionInputs, over: str, **more: Any) -> AttentionInputs:
    """Norms of queries and keys, with gains of each head's width or of all heads' widths."""
    d, d_kv = (len(getattr(inputs.parameters, name)) for name in ("W_q", "W_k"))
    widths = (d, d_kv) if over == "projection" else (inputs.head_dim,) * 2
    gains = {f"gain_{n}": 1 + numbers(64 + i, widths[i]) / 4 for i, n in enumerate("qk")}
    variant = Variant(norm="rms", norm_over=over, epsilon=1e-6, **more)
    return replace(inputs, parameters=replace(inputs.parameters, **gains), variant=variant)


def with_earlier_keys(inputs: AttentionInputs, earlier: int) -> AttentionInputs:
    """Queries that are the last of the tokens whose keys are given."""
    keys = inputs.tokens + earlier
    others = (numbers(62, 2, keys, inputs.d_in),)
    visible = causal_lower_right_mask(inputs.tokens, keys)
    return replace(inputs, others=others, may_attend=visible, wanted=("output", "weights"))


def with_masks_in_turn() -> AttentionInputs:
    """Windows of two images, which get the same two masks."""
    drawn = numbers(31, 2, 1, 5, 5) < 0.4
    drawn[..., 0] = True
    masks = drawn.repeat(2, 1, 1, 1)
    return replace(given(), x=numbers(21, 4, 5, 7), may_attend=masks, causal=False)


def with_scaling(scaling: RotaryScaling) -> AttentionInputs:
    return replace(given(head_dim=12), variant=Variant(rotary=True, base=100.0, scaling=scaling))


def in_blocks(inputs: AttentionInputs, block: int) -> AttentionInputs:
    return replace(inputs, block=block, wanted=("output", "logsumexp"))


def of_kind(kind: Exercise, seed: int) -> AttentionInputs:
    """A kind of attention that has no exercise."""
    sizes = Case(batch=2, tokens=9, context_length=9, d_in=7, heads=4, head_dim=4, sharpness=2)
    case = kind.contract.fit(replace(sizes, seed=seed))
    x, parameters = make_tokens(case, kind.contract), make_parameters(case, kind.contract)
    visible = find_visible(kind.contract, case, case.tokens)
    return make_attention_inputs(kind.contract, case, x, parameters, visible)


INPUTS: tuple[tuple[AttentionInputs, Pipeline], ...] = (
    (given(), CORRECT),
    (given(heads=2, head_dim=2, d_in=4, tokens=19), CORRECT),
    (given(plain=True), CORRECT),
    (given("drawn"), CORRECT),
    (with_masks_in_turn(), CORRECT),
    (given("padding", heads=2, head_dim=3, d_in=6, tokens=6), CORRECT),
    (replace(given("both sides", tokens=7), wanted=("output",)), CORRECT),
    (replace(given("lengths"), wanted=("output",)), CORRECT),
    (replace(given("documents", tokens=6), wanted=("output",)), CORRECT),
    (given("none", heads=1), CORRECT),
    (given("none", scale=1.0), CORRECT),
    (given(spread=30.0, tokens=9), CORRECT),
    (given(spread=60.0, heads=2), CORRECT),
    (given(spread=1000.0, heads=2), CORRECT),
    (given("none", heads=2, head_dim=3, d_in=6, tokens=6), WITHOUT_ATTENTION),
    (replace(given("none"), others=(numbers(40, 2, 8, 7),)), CORRECT),
    (replace(given("none"), others=(numbers(41, 2, 5, 7), numbers(42, 2, 5, 7))), CORRECT),
    (replace(given("none"), others=(numbers(43, 2, 2, 7),)), CORRECT),
    (replace(given(tokens=9), may_attend=sliding_window_mask(9, 3), window=3), CORRECT),
    (replace(given(tokens=4), may_attend=sliding_window_mask(4, 2), window=2), CORRECT),
    (given(heads=6, kv_heads=2), CORRECT),
    (given(heads=4, kv_heads=2, plain=True), CORRECT),
    (replace(given(head_dim=6), variant=Variant(rotary=True)), CORRECT),
    (with_scaling(RotaryScaling("linear", 4.0)), CORRECT),
    (with_scaling(RotaryScaling("ntk", 4.0)), CORRECT),
    (with_scaling(RotaryScaling("yarn", 8.0, 200.0, 8.0, 1.0, 1.2)), CORRECT),
    (with_scaling(RotaryScaling("llama3", 8.0, 200.0, 4.0, 1.0)), CORRECT),
    (replace(given(), variant=Variant(alibi=True)), CORRECT),
    (replace(given(tokens=9), variant=Variant(softcap=1.5)), CORRECT),
    (with_sinks(given()), CORRECT),
    (with_sinks(given("drawn", heads=2)), CORRECT),
    (with_gate(given()), CORRECT),
    (with_lambdas(given(head_dim=6)), CORRECT),
    (replace(given(scale=1.0), variant=Variant(features=True)), CORRECT),
    (replace(given("none", heads=2, scale=1.0), variant=Variant(features=True)), CORRECT),
    (with_lambdas(given(heads=2, head_dim=4, plain=True, tokens=6)), CORRECT),
    (with_gate(given("none", heads=2, head_dim=3, d_in=6, tokens=6)), CORRECT),
    (with_earlier_keys(given(tokens=4), 5), CORRECT),
    (with_earlier_keys(given(tokens=3, heads=1, plain=True), 2), CORRECT),
    (with_norms(given(), "head"), CORRECT),
    (with_norms(given(), "projection"), CORRECT),
    (with_norms(given("none", plain=True, tokens=6), "projection", rotary=True), CORRECT),
    (with_norms(given(heads=2, head_dim=6), "head", rotary=True), CORRECT),
    (with_norms(given(heads=6, kv_heads=2), "projection"), CORRECT),
    (in_blocks(given("none", tokens=7), 3), CORRECT),
    (in_blocks(given("none", tokens=8, heads=2, plain=True), 2), CORRECT),
    (in_blocks(given("none", tokens=4, spread=9.0), 6), CORRECT),
    *((of_kind(kind, seed), CORRECT) for kind in KINDS.values() for seed in (70, 71)),
)
"""Together they show every mistake: masks, large scores, other tokens to attend to, windows, keys
that heads share, positions, sinks, gates, lambdas, features, keys that come earlier, blocks."""
APART = (*AROUND_ATTENTION, *LATENTS)
"""mistakes with tests of their own: test_transformer_block.py and test_parts.py"""
ENTRIES = tuple(each for each in EQUATION if each not in APART)
VARIANTS = [each for each in ENTRIES if each not in (*DETERMINISTIC, *OF_SOME_CONTRACTS)]


@cache
def evaluators() -> tuple[tuple[MemoisedEvaluator, Pipeline], ...]:
    return tuple((MemoisedEvaluator(one, base), base) for one, base in INPUTS)


@cache
def answer(change: int | None, number: int) -> tuple[Tensor, ...] | None:
    """What a way to make a mistake gives to an input; None is the right recipe."""
    made = {} if change is None else WAYS[change][1]
    evaluator, base = evaluators()[number]
    steps = evaluator.evaluate(base.override(made))
    return None if steps is None else steps.answer


WAYS = [(each, change) for each in ENTRIES for change in each.variants]


def same(one: tuple[Tensor, ...] | None, other: tuple[Tensor, ...] | None) -> bool:
    if one is None or other is None:
        return one is other
    return len(one) == len(other) and all(
        a.shape == b.shape and torch.allclose(a, b, rtol=1e-11, atol=1e-13, equal_nan=True)
        for a, b in zip(one, other, strict=True)
    )


def test_right_pipeline_is_multi_head_attention() -> None:
    for one, base in INPUTS:
        if base is CORRECT:
            steps = MemoisedEvaluator(one, base).evaluate(base)
            exact = multi_head_attention(
                one.x,
                one.parameters,
                one.heads,
                one.may_attend,
                one.scale,
                keys_from=one.sources[1],
                values_from=one.sources[2],
                variant=one.variant,
            )
            assert steps is not None
            torch.testing.assert_close(steps.output, exact.output, rtol=1e-11, atol=1e-12)
            torch.testing.assert_close(steps.applied_weights, exact.weights, rtol=1e-11, atol=1e-12)


def test_memoisation_changes_nothing() -> None:
    evaluator, base = evaluators()[0]
    for _, change in WAYS[::7]:
        again = MemoisedEvaluator(INPUTS[0][0], base).evaluate(base.override(change))
        before = evaluator.evaluate(base.override(change))
        assert (again is None) is (before is None)
        assert again is None or before is None or same(again.answer, before.answer)


def test_there_are_many_and_all_have_names_of_their_own() -> None:
    names, sentences = {each.name for each in ALL}, {each.sentence for each in ALL}
    assert len(names) == len(sentences) == len(ALL) >= 40


@pytest.mark.parametrize("each", ALL, ids=lambda each: each.name)
def test_mistake_is_described_for_students(each: Mistake) -> None:
    assert each.name.isidentifier()
    assert not each.sentence[0].islower()
    assert each.sentence.endswith(".")


def test_the_order_of_a_packed_projection_is_said_where_one_layer_gives_all() -> None:
    [exchanged] = [each for each in ALL if each.name == "queries_and_keys_exchanged"]
    slugs = ("causal_self_attention", "multi_head_attention")
    packed, apart = (exchanged.describe(BY_SLUG[slug].contract) for slug in slugs)
    assert apart == "Queries and keys have changed places."
    assert packed.startswith(apart)
    assert packed.endswith("the queries first, then the keys, then the values.")


def test_norms_are_unasked_only_where_nobody_asks_for_them() -> None:
    plain = BY_SLUG["multi_head_attention"].contract
    normed = replace(plain, capabilities=plain.capabilities - {Capability.UNNORMED})
    names = ("queries_and_keys_normalised", "one_role_normalised")
    own = [each for each in ALL if each.name in names]
    assert len(own) == len(names)
    assert all(each.applies_to(plain) and not each.applies_to(normed) for each in own)


@pytest.mark.parametrize("each", ENTRIES, ids=lambda each: each.name)
def test_mistake_changes_steps(each: Mistake) -> None:
    assert each.variants
    assert all(change and set(change) <= set(STEP_NAMES) for change in each.variants)


def test_dropout_mistakes_change_no_pipeline_step() -> None:
    assert not any(each.variants for each in DROPOUT)


@pytest.mark.sampled("way", range(len(WAYS)), range(0, len(WAYS), 4), ids=lambda i: WAYS[i][0].name)
def test_every_variant_of_a_mistake_changes_the_answer(way: int) -> None:
    assert not all(same(answer(way, k), answer(None, k)) for k in range(len(INPUTS)))


def alike(inputs: Sequence[int]) -> set[frozenset[str]]:
    """The mistakes that no answer to these inputs tells apart."""
    shown = [[answer(i, k) for k in inputs] for i in range(len(WAYS))]
    right = [answer(None, k) for k in inputs]
    seen = [
        i
        for i, given in enumerate(shown)
        if any(a is not None and not same(a, b) for a, b in zip(given, right, strict=True))
    ]
    return {
        frozenset({WAYS[i][0].name, WAYS[j][0].name})
        for i, j in itertools.combinations(seen, 2)
        if WAYS[i][0] is not WAYS[j][0] and all(map(same, shown[i], shown[j]))
    }


@pytest.mark.whole
def test_no_two_mistakes_are_the_same() -> None:
    assert alike(range(len(INPUTS))) == ASKED_APART


def test_few_mistakes_look_the_same_without_weights() -> None:
    # Positions and limits tell heads apart that otherwise are alike; one wide head cannot share.
    plain = [
        k
        for k, (one, _) in enumerate(INPUTS)
        if one.wanted == ("output",)
        and one.variant == PLAIN
        and one.kv_heads == one.heads
        and one.parameters.sinks is one.parameters.W_gate is one.parameters.lambdas is None
    ]
    elsewhere = {each.name for each in (*VARIANTS, *ALIGNMENT)}
    assert {pair for pair in alike(plain) if not pair & elsewhere} == set(ALIKE)
