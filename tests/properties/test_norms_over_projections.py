"""Norms over whole projections: right answers pass every property, wrong ones are caught and named.

The answers are edits of a decoder with shared keys and rotary positions, like that of OLMo 2.
"""

from collections.abc import Iterator
from pathlib import Path

import pytest

from headcheck.grader.ui.pytest_plugin.plugin import load_suite
from headcheck.grader.ui.pytest_plugin.suite import PropertySuite
from headcheck.grader.ui.pytest_plugin.target_settings import Setting, TargetSettings
from headcheck.properties.mistakes.diagnosis import diagnose

pytestmark = pytest.mark.filterwarnings("ignore")  # of torch, about norms under autocast

CONTRACT = """\
title = "attention with norms over all heads"
name = "Olmo"
capabilities = ["causal", "batch", "stable", "divisible"]
positions = "rotary"
norm = "rms"
norm_over = "{over}"
norm_epsilon = 1e-6
size_rules = "head_dim>=4 head_dim=even"
square = true

[arguments]
width = "d_out"
heads = "heads"
{shared}

[parameters]
"q_proj.weight" = "W_q"
"k_proj.weight" = "W_k"
"v_proj.weight" = "W_v"
"o_proj.weight" = "W_o"
"q_norm.weight" = "gain_q"
"k_norm.weight" = "gain_k"
"""

SOURCE = """\
import torch
import torch.nn.functional as F
from torch import nn


def turn(t):
    count, wide = t.shape[-1], torch.promote_types(t.dtype, torch.float32)
    rates = 1e4 ** -(torch.arange(0, count, 2, dtype=wide, device=t.device) / count)
    angles = torch.outer(torch.arange(t.shape[-2], dtype=wide, device=t.device), rates)
    cos, sin = angles.cos().repeat(1, 2).to(t.dtype), angles.sin().repeat(1, 2).to(t.dtype)
    a, b = t.chunk(2, -1)
    return t * cos + torch.cat([-b, a], -1) * sin


class Olmo(nn.Module):
    def __init__(self, width, heads, kv_heads=None):
        super().__init__()
        kv_heads = kv_heads or heads
        if width % heads or heads % kv_heads:
            raise ValueError("the heads do not fit")
        self.heads, self.kv_heads, self.head_dim = heads, kv_heads, width // heads
        own = self.head_dim * kv_heads
        self.q_proj = nn.Linear(width, width, bias=False)
        self.k_proj = nn.Linear(width, own, bias=False)
        self.v_proj = nn.Linear(width, own, bias=False)
        self.o_proj = nn.Linear(width, width, bias=False)
        self.q_norm, self.k_norm = nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(own, eps=1e-6)

    def cut(self, t):
        return t.unflatten(-1, (-1, self.head_dim)).transpose(1, 2)

    def merge(self, t):
        return t.transpose(1, 2).flatten(2)

    def forward(self, x):
        q, k, v = self.q_proj(x), self.k_proj(x), self.v_proj(x)
        q, k = self.q_norm(q), self.k_norm(k)
        q, k, v = self.cut(q), self.cut(k), self.cut(v)
        q, k = turn(q), turn(k)
        mixed = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
        return self.o_proj(self.merge(mixed))
"""
NORMED = "        q, k = self.q_norm(q), self.k_norm(k)\n"
CUT = "        q, k, v = self.cut(q), self.cut(k), self.cut(v)\n"
TURNED = "        q, k = turn(q), turn(k)\n"
Edits = list[tuple[str, str]]


def each(computed: str) -> str:
    """A line that computes queries and keys, each from a tensor t and its norm n."""
    return f"        q, k = ({computed} for t, n in ((q, self.q_norm), (k, self.k_norm)))\n"


OF_HEAD = "F.rms_norm(t, t.shape[-1:], eps=1e-6)"
OWN_GAIN = "n.weight.view(t.shape[1], 1, -1)"
OVER_HEADS = "t * torch.rsqrt(t.square().mean((1, 3), keepdim=True) + 1e-6)"

RIGHT: dict[str, Edits] = {
    "as OLMo 2": [],
    "by hand, of heads that are cut": [
        (NORMED, ""),
        (CUT, CUT + each(f"{OVER_HEADS} * {OWN_GAIN}")),
    ],
    "by its length, and without a kernel": [
        (
            NORMED,
            "        q, k = self.norm(q, self.q_norm.weight), self.norm(k, self.k_norm.weight)\n",
        ),
        (
            "F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)",
            "self.attend(q, k.repeat_interleave(q.shape[1] // k.shape[1], 1),"
            " v.repeat_interleave(q.shape[1] // v.shape[1], 1))",
        ),
        (
            "    def forward(self, x):\n",
            "    def norm(self, t, gain):\n"
            "        length = torch.linalg.vector_norm(t, dim=-1, keepdim=True)\n"
            "        return gain * t / torch.sqrt(length**2 / t.shape[-1] + 1e-6)\n\n"
            "    def attend(self, q, k, v):\n"
            "        scores = q @ k.mT / q.shape[-1] ** 0.5\n"
            "        hidden = torch.ones_like(scores, dtype=torch.bool).triu(1)\n"
            "        scores = scores.masked_fill(hidden, -torch.inf)\n"
            "        return scores.softmax(-1) @ v\n\n"
            "    def forward(self, x):\n",
        ),
    ],
}

WRONG: dict[str, tuple[str, Edits]] = {
    "each head alone": (
        "norm_of_each_head",
        [(NORMED, ""), (CUT, CUT + each(f"{OF_HEAD} * {OWN_GAIN}"))],
    ),
    "after the rotation, each head alone": (
        "norm_after_positions",
        [(NORMED, ""), (TURNED, TURNED + each(f"{OF_HEAD} * {OWN_GAIN}"))],
    ),
    "after the rotation, all heads": (
        "norm_after_positions",
        [(NORMED, ""), (TURNED, TURNED + each("self.cut(n(self.merge(t)))"))],
    ),
    "keys are not normed": ("only_queries_normed", [(NORMED, "        q = self.q_norm(q)\n")]),
    "queries are not normed": ("only_keys_normed", [(NORMED, "        k = self.k_norm(k)\n")]),
    "no norms": ("norms_left_out", [(NORMED, "")]),
    "values are normed, too": (
        "values_normed_too",
        [(NORMED, NORMED + "        v = self.k_norm(v)\n")],
    ),
    "no gain": ("norm_without_gain", [(NORMED, each(OF_HEAD))]),
    "no root": (
        "norm_without_root",
        [(NORMED, each("t / (t.square().mean(-1, keepdim=True) + 1e-6) * n.weight"))],
    ),
    "mean over tokens": (
        "query_norm_over_tokens",
        [(NORMED, each("t / (t.square().mean(1, keepdim=True) + 1e-6).sqrt() * n.weight"))],
    ),
    "the sum of squares": (
        "",
        [(NORMED, each("t / (t.square().sum(-1, keepdim=True) + 1e-6).sqrt() * n.weight"))],
    ),
    "the gain of the first head": (
        "",
        [(NORMED, ""), (CUT, CUT + each(f"{OVER_HEADS} * n.weight[: self.head_dim]"))],
    ),
    "the mean of all queries and keys": (
        "",
        [
            (
                NORMED,
                "        size = torch.cat([q, k], -1).square().mean(-1, keepdim=True) + 1e-6\n"
                + each("t / size.sqrt() * n.weight"),
            )
        ],
    ),
}
QUERIES_NORM: dict[str, tuple[str, Edits]] = {
    "the queries' norm for keys": (
        "queries_norm_for_keys",
        [(NORMED, "        q, k = self.q_norm(q), self.q_norm(k)\n")],
    ),
    "the norms exchanged": ("", [(NORMED, "        q, k = self.k_norm(q), self.q_norm(k)\n")]),
}
"""what is possible only if keys are as wide as queries"""

OF_EACH: Edits = [
    (
        "nn.RMSNorm(width, eps=1e-6), nn.RMSNorm(own, eps=1e-6)",
        "(nn.RMSNorm(self.head_dim, eps=1e-6) for _ in range(2))",
    ),
    (NORMED, ""),
]
"""the layers of norms of each head"""


def load(
    folder: Path, edits: Edits, *, shared: bool = True, over: str = "projection"
) -> PropertySuite:
    source = SOURCE
    for right, other in edits:
        assert source.count(right) == 1
        source = source.replace(right, other)
    argument = 'kv_heads = "kv_heads"' if shared else ""
    text = CONTRACT.format(over=over, shared=argument)
    (folder / "answer.py").write_text(source, encoding="utf-8")
    (folder / "contract.toml").write_text(text, encoding="utf-8")
    return load_suite(
        TargetSettings(
            Setting(f"{folder / 'answer.py'}:Olmo", "name"),
            contract=Setting(str(folder / "contract.toml"), "contract"),
        )
    )


def iter_failures(suite: PropertySuite) -> Iterator[str]:
    """Yield the names of properties that fail on the CPU."""
    for variant in suite.list_variants(["cpu"]):
        if suite.get_outcome(variant).failure:
            yield variant.prop.name


def assert_caught(suite: PropertySuite, mistake: str) -> None:
    assert next(iter_failures(suite), "") != ""
    named = [each.mistake.name for each in diagnose(suite.harness, "cpu")]
    assert named == ([mistake] if mistake else [])


@pytest.mark.sampled("name", RIGHT, list(RIGHT)[:1])
def test_a_right_answer_passes_every_property(name: str, tmp_path: Path) -> None:
    assert list(iter_failures(load(tmp_path, RIGHT[name]))) == []


@pytest.mark.sampled("name", WRONG, list(WRONG)[::8])
def test_a_wrong_answer_is_caught_and_named(name: str, tmp_path: Path) -> None:
    mistake, edits = WRONG[name]
    assert_caught(load(tmp_path, edits), mistake)


@pytest.mark.sampled("name", QUERIES_NORM, list(QUERIES_NORM)[:1])
def test_norms_of_each_other_are_caught(name: str, tmp_path: Path) -> None:
    mistake, edits = QUERIES_NORM[name]
    assert_caught(load(tmp_path, edits, shared=False), mistake)


def test_norms_of_all_heads_are_caught_where_each_head_has_its_own(tmp_path: Path) -> None:
    together = each(f"{OVER_HEADS} * n.weight")
    suite = load(tmp_path, [*OF_EACH, (CUT, CUT + together)], over="head")
    assert_caught(suite, "norm_of_all_heads")
