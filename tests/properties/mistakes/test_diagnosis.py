"""Diagnosis names what is there: every mistake and pair of mistakes, and nothing else."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from headcheck.exercises import BY_SLUG
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.families.results import every_length_up_to_the_context_works
from headcheck.properties.harness.harness import Harness
from headcheck.properties.mistakes.catalogue import DETERMINISTIC, Mistake
from headcheck.properties.mistakes.diagnosis import diagnose
from headcheck.properties.mistakes.evaluation import MemoisedEvaluator
from headcheck.properties.mistakes.pipeline import CORRECT, AttentionInputs, Pipeline, StepOverrides
from headcheck.properties.mistakes.recognisers.answers import MIN_ANSWERS, collect_answers
from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake
from headcheck.properties.terms.peculiarity import SHORTER_THAN_CONTEXT
from headcheck.reference import Parameters, causal_mask
from tests.properties.modules import MultiHeadAttention, MultiHeadAttentionWrapper

# Dropout has tests of its own.
CAUSAL, JOINED = (
    replace(plain, capabilities=plain.capabilities - {Capability.DROPOUT})
    for plain in (BY_SLUG[slug].contract for slug in ("multi_head_attention", "multi_head_wrapper"))
)
MASKED = BY_SLUG["masked_multi_head"].contract
UNSEEN = {
    "queries_and_keys_exchanged": "layers with exchanged names are a note",
    "scale_not_asked_for": "both ask for it",
}


class Cook(nn.Module):
    """Attention by a recipe. It may be in a mood, in which it answers otherwise or not at all."""

    recipe: Pipeline = CORRECT
    mood: str = ""
    contract: Contract = CAUSAL

    def follow(self, x: Tensor, p: Parameters, heads: int, mask: Tensor | None) -> Any:
        uncut = self.mood == "uncut" and x.shape[1] < getattr(self, "context_length", 0)
        if uncut or self.mood == "raises" or (self.mood == "picky" and x.shape[1] > 5):
            raise ValueError("no")
        given = AttentionInputs(
            x=x,
            parameters=p,
            heads=heads,
            may_attend=mask,
            scale=(p.W_q.shape[0] // heads) ** -0.5,
            context_length=getattr(self, "context_length", x.shape[1]),
            causal=self.contract is not MASKED,
            wanted=("output",) if self.contract is not MASKED else ("output", "weights"),
        )
        steps = MemoisedEvaluator(given, CORRECT).evaluate(self.recipe)
        if steps is None:
            raise ValueError("shapes do not fit")
        if self.mood == "coarse":
            return steps.output.float().double()
        return steps.answer if len(steps.answer) > 1 else steps.answer[0]


def parameters(layers: Sequence[nn.Linear], output: nn.Linear) -> Parameters:
    weights = {f"W_{letter}": layer.weight for letter, layer in zip("qkv", layers, strict=True)}
    biases = {f"b_{letter}": layer.bias for letter, layer in zip("qkv", layers, strict=True)}
    return Parameters(**weights, **biases, W_o=output.weight, b_o=output.bias)


class CausalCook(Cook, MultiHeadAttention):
    def forward(self, x: Tensor) -> Any:
        layers = (self.W_query, self.W_key, self.W_value)
        p = parameters(layers, self.out_proj)
        return self.follow(x, p, self.num_heads, causal_mask(x.shape[1]))


class MaskedCook(Cook):
    contract = MASKED

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.num_heads = num_heads

    def forward(self, x: Tensor, mask: Tensor | None = None) -> Any:
        layers = (self.W_q, self.W_k, self.W_v)
        p = parameters(layers, self.W_o)
        # Masks may be numbers; as they are, the steps would fail on them, which is another mistake.
        return self.follow(x, p, self.num_heads, None if mask is None else mask.bool())


class JoinedCook(Cook, MultiHeadAttentionWrapper):
    contract = JOINED

    def forward(self, x: Tensor) -> Any:
        names = ("W_query", "W_key", "W_value")
        layers = [[getattr(head, name) for head in self.heads] for name in names]
        biases = [[layer.bias for layer in each if layer.bias is not None] for each in layers]
        q, k, v = (torch.cat([layer.weight for layer in each]) for each in layers)
        b_q, b_k, b_v = (torch.cat(each) if each else None for each in biases)
        p = Parameters(q, k, v, b_q, b_k, b_v)
        return self.follow(x, p, len(self.heads), causal_mask(x.shape[1]))


COOKS = (CausalCook, JoinedCook, MaskedCook)


def harness(change: StepOverrides, mood: str = "", cook: type[Cook] = CausalCook) -> Harness:
    name = cook.contract.name
    made = type(name, (cook,), {"recipe": CORRECT.override(change), "mood": mood})
    return Harness(make_subject({name: made}), cook.contract)


def names(found: tuple[DiagnosedMistake, ...]) -> list[str]:
    return [finding.mistake.name for finding in found]


def first_way(name: str) -> StepOverrides:
    return next(each for each in DETERMINISTIC if each.name == name).variants[0]


def must_be_named(each: Mistake, change: StepOverrides, cooks: Sequence[type[Cook]]) -> None:
    """By one of the cooks at least; by the others, too, or as a simpler one that looks the same."""
    found = [found for cook in cooks if (found := diagnose(harness(change, cook=cook)))]
    assert all(len(findings) == 1 for findings in found), [names(f) for f in found]
    only = [findings[0] for findings in found]
    assert all(DETERMINISTIC.index(f.mistake) <= DETERMINISTIC.index(each) for f in only)
    assert any(each in (f.mistake, *f.indistinguishable) for f in only)
    assert all(MIN_ANSWERS <= f.cases_matched <= f.cases_tried for f in only)


COMMON = [each for each in DETERMINISTIC if not each.rare and each.name not in UNSEEN]


@pytest.mark.sampled("each", COMMON, COMMON[::3], ids=lambda each: each.name)
def test_every_common_mistake_is_named(each: Mistake) -> None:
    for cook in COOKS:
        if diagnose(harness(each.variants[0], cook=cook)):
            must_be_named(each, each.variants[0], [cook])
            return
    pytest.fail("no cook shows it")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("each", "way"),
    [
        pytest.param(each, change, id=f"{each.name}-{i}")
        for each in DETERMINISTIC
        for i, change in enumerate(each.variants)
        if each.name not in UNSEEN
    ],
)
def test_every_variant_of_a_mistake_is_diagnosed(each: Mistake, way: StepOverrides) -> None:
    must_be_named(each, way, COOKS)


SOME_PAIRS = [
    ("no_scale", "no_mask"),
    ("no_scale", "softmax_over_queries"),
    ("scale_by_d_out", "merge_without_transpose"),
    ("next_token_visible", "filled_with_zero"),
    ("own_token_hidden", "no_scale"),
    ("masked_after_softmax", "scale_multiplied"),
    ("split_without_transpose", "output_projection_missing"),
    ("keys_and_values_exchanged", "double_softmax"),
    ("residual_added", "no_scale"),
    ("softmax_over_heads", "mask_on_first_sequence"),
    ("bias_missing", "output_bias_missing"),
    ("values_not_projected", "no_scale"),
]


@pytest.mark.parametrize(("one", "other"), SOME_PAIRS)
def test_two_mistakes_are_two(one: str, other: str) -> None:
    found = diagnose(harness({**first_way(one), **first_way(other)}))
    assert set(names(found)) == {one, other}
    assert all(MIN_ANSWERS <= finding.cases_matched <= finding.cases_tried for finding in found)


@pytest.mark.parametrize("cook", COOKS)
def test_a_right_answer_has_no_mistake(cook: type[Cook]) -> None:
    assert diagnose(harness({}, cook=cook)) == ()


@pytest.mark.parametrize("mood", ["raises", "coarse"])
@pytest.mark.parametrize("name", ["no_scale", "softmax_over_queries"])
def test_raising_or_inexact_answer_is_not_diagnosed(mood: str, name: str) -> None:
    assert diagnose(harness(first_way(name), mood)) == ()


def test_a_mistake_that_leaves_crashes_unexplained_is_not_named() -> None:
    assert diagnose(harness(first_way("no_scale"), "picky")) == ()


def test_crashes_of_what_is_known_to_be_lacking_hide_no_mistake() -> None:
    tested = harness(first_way("no_scale"), "uncut")
    assert diagnose(tested) == ()
    tested.unsupported[SHORTER_THAN_CONTEXT] = every_length_up_to_the_context_works
    (found,) = diagnose(tested)
    assert found.mistake.name == "no_scale"
    assert MIN_ANSWERS <= found.cases_matched < found.cases_tried


def test_answers_are_right_if_none_of_some_dtype_is_wrong() -> None:
    assert collect_answers(harness({}), "cpu").are_right
    assert not collect_answers(harness(first_way("no_scale")), "cpu").are_right


def test_an_unknown_mistake_is_not_named() -> None:
    unknown: StepOverrides = {"scale": lambda s: s.raw_scores * s.inputs.scale * 1.001}
    assert diagnose(harness(unknown)) == ()
    assert diagnose(harness({**unknown, **first_way("no_mask")})) == ()


@pytest.mark.parametrize("wrong", [0, 1])
def test_a_mistake_in_one_of_two_answers_is_named(wrong: int) -> None:
    contract = BY_SLUG["causal_weights"].contract
    assert contract.returns is Returns.WEIGHTS_TWICE

    def causal_weights(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        past = causal_mask(scores.shape[-1])
        late = causal_mask(scores.shape[-1] + 1)[1:, 1:].roll(-1, 0) | past
        late[-1] = True
        kept = [late, past] if wrong == 0 else [past, late]
        one, other = (scores.masked_fill(~each, -float("inf")).softmax(-1) for each in kept)
        return one, other

    found = diagnose(Harness(make_subject({"causal_weights": causal_weights}), contract))
    assert names(found) == ["next_token_visible"]
