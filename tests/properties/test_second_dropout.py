"""A second dropout beside the right one, at every place and in every layout, is seen and told."""

from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import pytest

from headcheck.exercises import BY_SLUG
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.contracts.implied_capabilities import restate_steps
from headcheck.properties.families import dropout, list_properties
from headcheck.properties.families.values import no_dropout_means_no_difference
from headcheck.properties.parts import find_problems
from headcheck.properties.violations.violation import Note, Status
from tests.properties.test_combinations import find_broken
from tests.submissions import load_source

CAUSAL = """
import torch
from torch import nn
from torch.nn.functional import dropout as at_rate

class CausalAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, qkv_bias=False):
        super().__init__()
        self.d_out = d_out
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.dropout, self.again = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x):
        again = self.again
        {x}
        q, k, v = self.W_query(x), self.W_key(x), self.W_value(x)
        {projected}
        scores = q @ k.mT / self.d_out**0.5
        {scores}
        weights = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -torch.inf).softmax(-1)
        weights = self.dropout(weights)
        {weights}
        context = weights @ v
        {context}
        return context

class MultiHeadAttentionWrapper(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        arguments = d_in, d_out, context_length, dropout, qkv_bias
        self.heads = nn.ModuleList([CausalAttention(*arguments) for _ in range(num_heads)])
        self.again = nn.Dropout(dropout)

    def forward(self, x):
        output = torch.cat([head(x) for head in self.heads], dim=-1)
        again = self.again
        {output}
        return output
"""
MULTI_HEAD = """
import torch
from torch import nn
from torch.nn.functional import dropout as at_rate

class MultiHeadAttention(nn.Module):
    def __init__(self, d_in, d_out, context_length, dropout, num_heads, qkv_bias=False):
        super().__init__()
        assert d_out % num_heads == 0
        self.heads, self.head_dim = num_heads, d_out // num_heads
        self.W_query = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_key = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.W_value = nn.Linear(d_in, d_out, bias=qkv_bias)
        self.out_proj = nn.Linear(d_out, d_out)
        self.dropout, self.again = nn.Dropout(dropout), nn.Dropout(dropout)

    def forward(self, x):
        again = self.again
        {x}
        q, k, v = (
            layer(x).unflatten(-1, (self.heads, self.head_dim)).transpose(1, 2)
            for layer in (self.W_query, self.W_key, self.W_value)
        )
        {projected}
        scores = q @ k.mT / self.head_dim**0.5
        {scores}
        weights = scores.masked_fill(torch.ones_like(scores).triu(1) > 0, -torch.inf).softmax(-1)
        weights = self.dropout(weights)
        {weights}
        context = weights @ v
        {context}
        context = context.transpose(1, 2).flatten(-2)
        {merged}
        output = self.out_proj(context)
        {output}
        return output
"""
PLACES = ("x", "projected", "scores", "weights", "context", "merged", "output")
LAYOUTS = dict.fromkeys(("causal_attention", "multi_head_wrapper"), CAUSAL)
LAYOUTS["multi_head_attention"] = MULTI_HEAD
TOO = "dropout_acts_on_the_output_too"
FACTOR = "dropout_scales_up_what_it_keeps"
ITSELF = "every_weight_is_dropped_for_itself"
WEIGHTS = "dropout_acts_on_the_attention_weights"
SHARE = "dropout_drops_the_stated_share"
SECOND = {
    "of the input": ("x", "x = again(x)", WEIGHTS),
    "of the queries": ("projected", "q = again(q)", FACTOR),
    "of few queries": ("projected", "q = at_rate(q, 0.01, self.training)", FACTOR),
    "of the keys": ("projected", "k = again(k)", FACTOR),
    "of the values": ("projected", "v = again(v)", WEIGHTS),
    "of few values": ("projected", "v = at_rate(v, 0.02, self.training)", WEIGHTS),
    "of the scores": ("scores", "scores = again(scores)", FACTOR),
    "of whole queries": ("weights", "weights = weights * again(weights[..., :1] * 0 + 1)", WEIGHTS),
    "of the weights": ("weights", "weights = again(weights)", SHARE),
    "of the heads' results": ("context", "context = again(context)", WEIGHTS),
    "of few results": ("context", "context = at_rate(context, 0.02, self.training)", WEIGHTS),
}
KEPT = "(again(torch.ones_like(output)) > 0)"
OTHERS = (
    ("multi_head_wrapper", "output", "output = again(output)", WEIGHTS),
    ("multi_head_attention", "merged", "context = again(context)", WEIGHTS),
    ("multi_head_attention", "output", "output = output * again(output[..., :1] * 0 + 1)", WEIGHTS),
    ("multi_head_attention", "output", f"output = output * {KEPT}", SHARE),
)


def write(layout: str, place: str, line: str) -> str:
    return layout.format(**{**dict.fromkeys(PLACES, "pass"), place: line})


@cache
def judged(slug: str, place: str, line: str) -> tuple[Mapping[str, str], set[Note]]:
    """The claims about dropout that a layout with this line at this place breaks, and why."""
    exercise = BY_SLUG[slug]
    harness = load_source(write(LAYOUTS[slug], place, line), exercise.contract)
    plan = exercise.plan_cases()
    asked = (*list_properties(dropout), no_dropout_means_no_difference)
    verdicts = [find_first_failure(claim, harness, plan[claim]) for claim in asked if claim in plan]
    broken = {v.property.name: v.message for v in verdicts if v.status is not Status.PASSED}
    return broken, set(harness.notes.values())


@pytest.mark.parametrize("slug", LAYOUTS)
def test_the_weights_alone_are_right(slug: str) -> None:
    assert judged(slug, "x", "pass") == ({}, set())


@pytest.mark.parametrize("second", SECOND)
@pytest.mark.parametrize("slug", LAYOUTS)
def test_nothing_else_may_be_dropped(slug: str, second: str) -> None:
    place, line, claim = SECOND[second]
    broken, notes = judged(slug, place, line)
    assert claim in broken
    assert not notes, "it is not the output that is dropped"


@pytest.mark.parametrize(("slug", "place", "line", "claim"), OTHERS)
def test_optional_tensors_may_not_be_dropped(slug: str, place: str, line: str, claim: str) -> None:
    assert claim in judged(slug, place, line)[0]


def test_output_dropout_is_noted_and_not_wrong() -> None:
    found = judged("multi_head_attention", "output", "output = again(output)")
    assert found == ({}, {dropout.EXTRA_DROPOUT})


def test_output_dropout_with_a_fixed_rate_is_noted_and_fails_without_dropout() -> None:
    line = "output = at_rate(output, 0.1, self.training)"
    broken, notes = judged("multi_head_attention", "output", line)
    assert (set(broken), notes) == ({"no_dropout_means_no_difference"}, {dropout.EXTRA_DROPOUT})


def test_the_message_says_what_else_vanishes() -> None:
    broken, _ = judged("multi_head_attention", "merged", "context = again(context)")
    assert "single coordinates of what the heads return vanish, too" in broken[WEIGHTS]
    broken, _ = judged("multi_head_attention", *SECOND["of few values"][:2])
    assert "no query got anything of the first token" in broken[ITSELF]
    broken, _ = judged("multi_head_attention", *SECOND["of the queries"][:2])
    assert "multiplied by something else" in broken[FACTOR]


def make_asked() -> Contract:
    """The contract that asks for dropout behind the output layer, too."""
    plain = BY_SLUG["multi_head_attention"].contract
    return restate_steps(replace(plain, output_dropout=True))


ASKED = {
    "output = again(output)": "",
    "output = at_rate(output, self.again.p, self.training)": "",
    "pass": TOO,
    "output = at_rate(output, self.again.p / 2, self.training)": TOO,
    "output = again(again(output))": TOO,
    "output = output * again(output[..., :1] * 0 + 1)": FACTOR,
    "output = self.out_proj(again(context))": WEIGHTS,
}


@pytest.mark.sampled("line", ASKED, list(ASKED)[1::2])
def test_dropout_of_the_output_may_be_asked_for(line: str) -> None:
    harness = load_source(write(MULTI_HEAD, "output", line), make_asked())
    found = find_broken(harness)
    assert found.startswith(ASKED[line]) if ASKED[line] else not found
    assert not harness.notes
    assert "nowhere else" not in found


def test_dropout_of_the_output_needs_a_rate_and_an_output_layer() -> None:
    contract = make_asked()
    arguments = tuple(each for each in contract.arguments if each.quantity != "dropout")
    mappings = tuple(each for each in contract.mappings if not each.is_output)
    without = replace(contract, arguments=arguments), replace(contract, mappings=mappings)
    said = [[text for _, _, text in find_problems(each)] for each in without]
    assert any("let one take dropout" in text for text in said[0])
    assert any("say where W_o is" in text for text in said[1])
