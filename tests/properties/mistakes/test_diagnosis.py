"""Diagnosis names what is there: every mistake and pair of mistakes, and nothing else."""

from collections.abc import Sequence
from dataclasses import replace

import pytest
import torch
from torch import Tensor, nn

from exercises import BY_SLUG
from grader.sandbox.grader_side.subject import of_namespace
from properties.contract import Contract, Returns, Trait
from properties.harness.harness import Bench
from properties.mistakes.catalogue import CATALOGUE, Misconception
from properties.mistakes.diagnosis import ENOUGH, Finding, diagnose
from properties.mistakes.pipeline import RIGHT, Change, Given, Kitchen, Recipe
from reference import Parameters, causal

# Dropout has tests of its own.
CAUSAL = replace(
    BY_SLUG["multi_head_attention"].contract,
    traits=BY_SLUG["multi_head_attention"].contract.traits - {Trait.DROPOUT},
)
JOINED = replace(
    BY_SLUG["multi_head_wrapper"].contract,
    traits=BY_SLUG["multi_head_wrapper"].contract.traits - {Trait.DROPOUT},
)
MASKED = BY_SLUG["masked_multi_head"].contract
UNSEEN = {
    "queries_and_keys_exchanged": "layers with exchanged names are a note",
    "scale_not_asked_for": "both ask for it",
}


class Cook(nn.Module):
    """Attention by a recipe. It may be in a mood, in which it answers otherwise or not at all."""

    recipe: Recipe = RIGHT
    mood: str = ""
    contract: Contract = CAUSAL

    def follow(self, x: Tensor, p: Parameters, heads: int, mask: Tensor | None) -> object:
        if self.mood == "raises" or (self.mood == "picky" and x.shape[1] > 5):
            raise ValueError("no")
        given = Given(
            x=x,
            parameters=p,
            heads=heads,
            may_attend=mask,
            scale=(p.W_q.shape[0] // heads) ** -0.5,
            context_length=getattr(self, "context_length", x.shape[1]),
            causal=self.contract is not MASKED,
            wanted=("output",) if self.contract is not MASKED else ("output", "weights"),
        )
        steps = Kitchen(given, RIGHT).follow(self.recipe)
        if steps is None:
            raise ValueError("shapes do not fit")
        if self.mood == "coarse":
            return steps.output.float().double()
        return steps.answer if len(steps.answer) > 1 else steps.answer[0]


def parameters(layers: Sequence[nn.Linear], output: nn.Linear) -> Parameters:
    weights = {f"W_{letter}": layer.weight for letter, layer in zip("qkv", layers, strict=True)}
    biases = {f"b_{letter}": layer.bias for letter, layer in zip("qkv", layers, strict=True)}
    return Parameters(**weights, **biases, W_o=output.weight, b_o=output.bias)


class CausalCook(Cook):
    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.W_query, self.W_key, self.W_value = (
            nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3)
        )
        self.out_proj = nn.Linear(d_out, d_out)
        self.num_heads, self.context_length = num_heads, context_length

    def forward(self, x: Tensor) -> object:
        layers = (self.W_query, self.W_key, self.W_value)
        p = parameters(layers, self.out_proj)
        return self.follow(x, p, self.num_heads, causal(x.shape[1]))


class MaskedCook(Cook):
    contract = MASKED

    def __init__(self, d_model: int, num_heads: int) -> None:
        super().__init__()
        self.W_q, self.W_k, self.W_v, self.W_o = (nn.Linear(d_model, d_model) for _ in range(4))
        self.num_heads = num_heads

    def forward(self, x: Tensor, mask: Tensor | None = None) -> object:
        layers = (self.W_q, self.W_k, self.W_v)
        p = parameters(layers, self.W_o)
        return self.follow(x, p, self.num_heads, mask)


class Head(nn.Module):
    def __init__(self, d_in: int, d_out: int, qkv_bias: bool) -> None:
        super().__init__()
        self.W_query, self.W_key, self.W_value = (
            nn.Linear(d_in, d_out, bias=qkv_bias) for _ in range(3)
        )


class JoinedCook(Cook):
    contract = JOINED

    def __init__(
        self,
        d_in: int,
        d_out: int,
        context_length: int,
        dropout: float,
        num_heads: int,
        qkv_bias: bool = False,
    ) -> None:
        super().__init__()
        self.heads = nn.ModuleList(Head(d_in, d_out, qkv_bias) for _ in range(num_heads))
        self.context_length = context_length

    def forward(self, x: Tensor) -> object:
        names = ("W_query", "W_key", "W_value")
        layers = [[getattr(head, name) for head in self.heads] for name in names]
        biases = [[layer.bias for layer in each if layer.bias is not None] for each in layers]
        q, k, v = (torch.cat([layer.weight for layer in each]) for each in layers)
        b_q, b_k, b_v = (torch.cat(each) if each else None for each in biases)
        p = Parameters(q, k, v, b_q, b_k, b_v)
        return self.follow(x, p, len(self.heads), causal(x.shape[1]))


COOKS = (CausalCook, JoinedCook, MaskedCook)


def bench(change: Change, mood: str = "", cook: type[Cook] = CausalCook) -> Bench:
    name = cook.contract.name
    made = type(name, (cook,), {"recipe": RIGHT.with_(change), "mood": mood})
    return Bench(of_namespace({name: made}), cook.contract)


def names(found: tuple[Finding, ...]) -> list[str]:
    return [finding.misconception.name for finding in found]


def first_way(name: str) -> Change:
    return next(each for each in CATALOGUE if each.name == name).changes[0]


def must_be_named(each: Misconception, change: Change, cooks: Sequence[type[Cook]]) -> None:
    """By one of the cooks at least; by the others, too, or as a simpler one that looks the same."""
    found = [found for cook in cooks if (found := diagnose(bench(change, cook=cook)))]
    assert all(len(findings) == 1 for findings in found), [names(f) for f in found]
    only = [findings[0] for findings in found]
    assert all(CATALOGUE.index(f.misconception) <= CATALOGUE.index(each) for f in only)
    assert any(each in (f.misconception, *f.alike) for f in only)
    assert all(ENOUGH <= f.matched <= f.tried for f in only)


@pytest.mark.parametrize(
    "each",
    [each for each in CATALOGUE if not each.rare and each.name not in UNSEEN],
    ids=lambda each: each.name,
)
def test_every_common_mistake_is_named(each: Misconception) -> None:
    for cook in COOKS:
        if diagnose(bench(each.changes[0], cook=cook)):
            must_be_named(each, each.changes[0], [cook])
            return
    pytest.fail("no cook shows it")


@pytest.mark.deep
@pytest.mark.parametrize(
    ("each", "way"),
    [
        pytest.param(each, change, id=f"{each.name}-{i}")
        for each in CATALOGUE
        for i, change in enumerate(each.changes)
        if each.name not in UNSEEN
    ],
)
def test_every_way_to_make_a_mistake_is_named(each: Misconception, way: Change) -> None:
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
    found = diagnose(bench({**first_way(one), **first_way(other)}))
    assert set(names(found)) == {one, other}
    assert all(ENOUGH <= finding.matched <= finding.tried for finding in found)


@pytest.mark.parametrize("cook", COOKS)
def test_a_right_answer_has_no_mistake(cook: type[Cook]) -> None:
    assert diagnose(bench({}, cook=cook)) == ()


@pytest.mark.parametrize("mood", ["raises", "coarse"])
@pytest.mark.parametrize("name", ["no_scale", "softmax_over_queries"])
def test_what_raises_or_is_not_exact_is_not_named(mood: str, name: str) -> None:
    assert diagnose(bench(first_way(name), mood)) == ()


def test_inputs_on_which_it_raises_are_left_out() -> None:
    (found,) = diagnose(bench(first_way("no_scale"), "picky"))
    assert found.misconception.name == "no_scale"
    assert found.matched < ENOUGH or found.matched < found.tried


def test_an_unknown_mistake_is_not_named() -> None:
    unknown: Change = {"scale": lambda s: s.raw * s.given.scale * 1.001}
    assert diagnose(bench(unknown)) == ()
    assert diagnose(bench({**unknown, **first_way("no_mask")})) == ()


def test_a_mistake_in_one_of_two_answers_is_named() -> None:
    contract = BY_SLUG["causal_weights"].contract
    assert contract.returns is Returns.WEIGHTS_TWICE

    def causal_weights(queries: Tensor, keys: Tensor) -> tuple[Tensor, Tensor]:
        scores = queries @ keys.mT / keys.shape[-1] ** 0.5
        past = causal(scores.shape[-1])
        late = causal(scores.shape[-1] + 1)[1:, 1:].roll(-1, 0) | past
        late[-1] = True
        right = scores.masked_fill(~past, -float("inf")).softmax(-1)
        return right, scores.masked_fill(~late, -float("inf")).softmax(-1)

    found = diagnose(Bench(of_namespace({"causal_weights": causal_weights}), contract))
    assert names(found) == ["next_token_visible"]
