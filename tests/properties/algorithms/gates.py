"""The evidence for the bounds of gates: right algorithms stay within, wrong do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. What gates are the
sigmoids of has a spread of 0.1, 2, 20 and 2000. The largest ratio of an output is 0.13, in
bfloat16, of a gradient 0.21, in float64.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters, merge_heads
from tests.properties.evidence import ODD_SIZES, Evidence, project, score, spreading, widen

CONTRACT = BY_SLUG["gated_attention"].contract

Gate = Callable[[Tensor, Tensor], Tensor]
"""what comes through the gate, of the merged heads and of what the gate's layer gives"""


def choose_between_two(merged: Tensor, asked: Tensor) -> Tensor:
    both = torch.stack([asked, torch.zeros_like(asked)], dim=-1)
    return merged * both.softmax(-1)[..., 0]


def by_hand(merged: Tensor, asked: Tensor) -> Tensor:
    low, high = torch.exp(asked.clamp(max=0)), torch.exp(-asked.clamp(min=0))
    return merged * torch.where(asked < 0, low / (1 + low), 1 / (1 + high))


def in_float32(merged: Tensor, asked: Tensor) -> Tensor:
    return (merged.to(widen(asked)) * asked.to(widen(asked)).sigmoid()).to(asked.dtype)


RIGHT: dict[str, Gate] = {
    "sigmoid": lambda merged, asked: merged * asked.sigmoid(),
    "tanh": lambda merged, asked: merged * (1 + torch.tanh(asked / 2)) / 2,
    "half and half of tanh": lambda merged, asked: merged / 2 + merged * torch.tanh(asked / 2) / 2,
    "logarithms": lambda merged, asked: merged * F.logsigmoid(asked).exp(),
    "what is left of the other": lambda merged, asked: merged - merged * torch.sigmoid(-asked),
    "softmax of two": choose_between_two,
    "by hand": by_hand,
    "in float32": in_float32,
}
WRONG: dict[str, Gate] = {
    "none": lambda merged, asked: merged,
    "tanh": lambda merged, asked: merged * asked.tanh(),
    "inverted": lambda merged, asked: merged * torch.sigmoid(-asked),
    "straight": lambda merged, asked: merged * F.hardsigmoid(asked),
    "a thousandth more": lambda merged, asked: merged * asked.sigmoid() * 1.001,
}


def attend(x: Tensor, p: Parameters, case: Case, compute: Gate) -> Tensor:
    q, k, v = project(x, p, case.heads)
    merged = merge_heads(score(q, k).softmax(-1) @ v)
    assert p.W_o is not None and p.W_gate is not None
    return F.linear(compute(merged, F.linear(x, p.W_gate)), p.W_o, p.b_o)


EVIDENCE = Evidence(
    CONTRACT,
    RIGHT,
    WRONG,
    draw=spreading(CONTRACT, "W_gate"),
    attend=attend,
    sizes=ODD_SIZES,
    spreads=(1.0, 0.05, 10.0, 1e3),
)
