"""Small classes of attention, made of parts, and what they are bound to."""

import textwrap

from headcheck.properties.binding.binding import Binding, NotBound, bind
from tests.forms.bank import open_class

HEAD = """
import math
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn

"""
SEPARATE = "self.q, self.k, self.v, self.out = (nn.Linear(dim, dim) for _ in range(4))"
PROJECT = """
q, k, v = (
    layer(tokens).unflatten(-1, (self.heads, -1)).transpose(1, 2)
    for layer, tokens in zip((self.q, self.k, self.v), inputs)
)
"""
SCORES = "s = q @ k.mT / q.shape[-1] ** 0.5"
CAUSAL = "s = s.masked_fill(torch.ones_like(s, dtype=torch.bool).triu(1), -torch.inf)"
FUSED = "self.qkv, self.out = nn.Linear(dim, 3 * dim), nn.Linear(dim, dim)"
THIRDS = """
q, k, v = (
    t.unflatten(-1, (self.heads, -1)).transpose(1, 2) for t in self.qkv(x).chunk(3, -1)
)
"""
OUT = "o = self.out((w @ v).transpose(1, 2).flatten(2))"


def make(
    *,
    name: str = "Own",
    takes: str = "dim, heads",
    init: str = SEPARATE,
    call: str = "x",
    inputs: str = "x, x, x",
    project: str = PROJECT,
    scores: str = SCORES,
    mask: str = "",
    softmax: str = "w = s.softmax(-1)",
    weights: str = "",
    out: str = OUT,
    result: str = "o",
    before: str = "",
) -> str:
    """The source of a class: multi-head self-attention, unless a part says otherwise."""
    known = "self.heads = heads" if "heads" in takes.replace("=", ", ").split(", ") else ""
    body = "\n".join((f"inputs = ({inputs})", project, scores, mask, softmax, weights, out))
    return (
        HEAD
        + textwrap.dedent(before)
        + f"\n\nclass {name}(nn.Module):\n    def __init__(self, {takes}):\n"
        + textwrap.indent(f"super().__init__()\n{known}\n{textwrap.dedent(init)}\n", " " * 8)
        + f"\n    def forward(self, {call}):\n"
        + textwrap.indent(f"{body}\nreturn {result}\n", " " * 8)
    )


def bind_source(source: str, name: str = "Own") -> Binding | NotBound:
    return bind(*open_class(source, name))


def must_bind(source: str, name: str = "Own") -> Binding:
    """The binding of a class that computes the equation."""
    found = bind_source(source, name)
    assert isinstance(found, Binding), "it is not bound"
    assert found.mistakes == () and not found.inexact, "it is bound, but not exactly"
    return found


def mistaken(source: str, name: str = "Own") -> list[str]:
    """The names of the mistakes that a class is bound with."""
    found = bind_source(source, name)
    assert isinstance(found, Binding), "it is not bound"
    return [mistake.name for mistake in found.mistakes]
