"""The evidence for the bounds of blocks: right algorithms stay within, wrong do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. Tokens have a
spread of a hundredth, of one and of a hundred, and offsets of as much, which a norm takes away.
The largest ratio of an output is 0.63, in float32, of a gradient 0.03, in float32.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.cases.case_tensors import DTYPES, make_parameters, make_tokens
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters
from tests.properties.evidence import Evidence, finish, project, score, widen

CONTRACT = BY_SLUG["gpt_block"].contract
TANH = replace(CONTRACT, activation=type(CONTRACT.activation).GELU_TANH)
EPSILON = 1e-5

Norm = Callable[[Tensor, Tensor, Tensor], Tensor]
"""of tokens, with gain and shift"""


def norm_by_torch(t: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    return F.layer_norm(t, t.shape[-1:], gain, shift, EPSILON)


def norm_by_hand(t: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    mean, variance = t.mean(-1, keepdim=True), t.var(-1, keepdim=True, correction=0)
    return gain * ((t - mean) / torch.sqrt(variance + EPSILON)) + shift


def norm_from_length(t: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    centred = t - t.sum(-1, keepdim=True) / t.shape[-1]
    length = torch.linalg.vector_norm(centred, dim=-1, keepdim=True)
    return torch.addcmul(shift, centred * (length**2 / t.shape[-1] + EPSILON).rsqrt(), gain)


def norm_scaled_first(t: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    """As kernels compute it: t times 1/σ, minus the mean times 1/σ."""
    size = torch.rsqrt(t.var(-1, keepdim=True, correction=0) + EPSILON)
    return (t * size - t.mean(-1, keepdim=True) * size) * gain + shift


def norm_in_float32(t: Tensor, gain: Tensor, shift: Tensor) -> Tensor:
    wide = widen(t)
    return norm_by_hand(t.to(wide), gain.to(wide), shift.to(wide)).to(t.dtype)


def gelu_by_erf(t: Tensor) -> Tensor:
    return t * 0.5 * (1 + torch.erf(t / math.sqrt(2)))


def gelu_by_hand_and_tanh(t: Tensor) -> Tensor:
    return 0.5 * t * (1 + torch.tanh(math.sqrt(2 / math.pi) * (t + 0.044715 * t**3)))


@dataclass(frozen=True)
class Algorithm:
    """How one computes a norm and a GELU, and whether attention is torch's own."""

    norm: Norm = norm_by_torch
    gelu: Callable[[Tensor], Tensor] = F.gelu
    fused: bool = False
    residual: Callable[[Tensor, Tensor], Tensor] = torch.add


RIGHT: dict[str, Algorithm] = {
    "torch": Algorithm(),
    "by hand": Algorithm(norm_by_hand, gelu_by_erf),
    "from lengths": Algorithm(norm_from_length, lambda t: t * torch.special.erfc(-t / 2**0.5) / 2),
    "scaled first": Algorithm(norm_scaled_first, lambda t: t * torch.special.ndtr(t)),
    "in float32": Algorithm(norm_in_float32, lambda t: F.gelu(t.to(widen(t))).to(t.dtype)),
    "fused": Algorithm(fused=True),
}
APPROXIMATED: dict[str, Algorithm] = {
    "torch": Algorithm(gelu=partial(F.gelu, approximate="tanh")),
    "by hand": Algorithm(norm_by_hand, gelu_by_hand_and_tanh),
}
WRONG: dict[str, Algorithm] = {
    "relu": Algorithm(gelu=torch.relu),
    "tanh": Algorithm(gelu=partial(F.gelu, approximate="tanh")),
    "none": Algorithm(gelu=lambda t: t),
    "no residual": Algorithm(residual=lambda x, a: a),
    "a thousandth more": Algorithm(residual=lambda x, a: x + 1.001 * a),
    "no shift": Algorithm(lambda t, gain, shift: norm_by_hand(t, gain, 0 * shift)),
    "another epsilon": Algorithm(lambda t, g, s: F.layer_norm(t, t.shape[-1:], g, s, 1e-6)),
    "unbiased": Algorithm(
        lambda t, g, s: (
            (t - t.mean(-1, keepdim=True)) / torch.sqrt(t.var(-1, keepdim=True) + EPSILON) * g + s
        )
    ),
}


def draw(case: Case, spread: float) -> tuple[Tensor, Parameters]:
    """Return tokens and parameters that are exact in the case's dtype."""
    x, p = make_tokens(case, CONTRACT), make_parameters(case, CONTRACT)
    x = spread * (x + x.mean(-1, keepdim=True).sign())
    return x.to(DTYPES[case.dtype]).double(), p


def attend(x: Tensor, p: Parameters, case: Case, compute: Algorithm) -> Tensor:
    assert p.gain_in is not None and p.shift_in is not None and p.W_1 is not None
    assert p.gain_ff is not None and p.shift_ff is not None and p.W_2 is not None
    n = compute.norm(x, p.gain_in, p.shift_in)
    q, k, v = project(n, p, case.heads)
    if compute.fused:
        context = F.scaled_dot_product_attention(q, k, v, is_causal=True)
    else:
        context = score(q, k).softmax(-1) @ v
    h = compute.residual(x, finish(context, p))
    hidden = F.linear(compute.norm(h, p.gain_ff, p.shift_ff), p.W_1, p.b_1)
    return compute.residual(h, F.linear(compute.gelu(hidden), p.W_2, p.b_2))


EVIDENCE = Evidence(
    CONTRACT, RIGHT, WRONG, draw=draw, attend=attend, spreads=(1.0, 0.01, 100.0), least=1e4
)
BY_TANH = replace(
    EVIDENCE, contract=TANH, right=APPROXIMATED, wrong={"erf": Algorithm()}, least=10.0
)
