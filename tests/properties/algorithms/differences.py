"""The evidence for the bounds of differential attention: who is right stays within, others do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. Lambdas are drawn
near 0.5, and a thousand times as large and as small. The largest ratio of an output is 0.29, in
bfloat16, of a gradient 0.04.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.cases.case_tensors import DTYPES, make_parameters, make_tokens
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters, causal_mask, merge_heads, split_heads
from tests.properties.evidence import ODD_SIZES, Evidence, scale, widen

CONTRACT = BY_SLUG["differential_attention"].contract

Pair = tuple[Tensor, Tensor]
Context = Callable[[Pair, Pair, Tensor, Tensor], Tensor]
"""what heads give, of both halves of queries and keys, of values, and lambdas of (heads, 1, 1)"""


def read_causal(q: Tensor, k: Tensor) -> Tensor:
    return scale(q, k).masked_fill(~causal_mask(q.shape[-2]), -torch.inf)


def subtract_weights(q: Pair, k: Pair, v: Tensor, lambdas: Tensor) -> Tensor:
    first, second = (read_causal(*each).softmax(-1) for each in zip(q, k, strict=True))
    return (first - lambdas * second) @ v


def subtract_contexts(q: Pair, k: Pair, v: Tensor, lambdas: Tensor) -> Tensor:
    first, second = (read_causal(*each).softmax(-1) @ v for each in zip(q, k, strict=True))
    return first - lambdas * second


def scale_values(q: Pair, k: Pair, v: Tensor, lambdas: Tensor) -> Tensor:
    first, second = (read_causal(*each).softmax(-1) for each in zip(q, k, strict=True))
    return first @ v + second @ (-lambdas * v)


def divide_last(q: Pair, k: Pair, v: Tensor, lambdas: Tensor) -> Tensor:
    given = []
    for each in zip(q, k, strict=True):
        scores = read_causal(*each)
        powers = (scores - scores.amax(-1, keepdim=True).detach()).exp()
        given.append(powers @ v / powers.sum(-1, keepdim=True))
    return given[0] - lambdas * given[1]


def by_logarithms(q: Pair, k: Pair, v: Tensor, lambdas: Tensor) -> Tensor:
    scores = [read_causal(*each) for each in zip(q, k, strict=True)]
    first, second = ((s - s.logsumexp(-1, keepdim=True)).exp() for s in scores)
    return torch.addcmul(first, lambdas, second, value=-1) @ v


def by_kernels(q: Pair, k: Pair, v: Tensor, lambdas: Tensor) -> Tensor:
    first, second = (
        F.scaled_dot_product_attention(*each, v, is_causal=True) for each in zip(q, k, strict=True)
    )
    return first - lambdas * second


def in_float32(q: Pair, k: Pair, v: Tensor, lambdas: Tensor) -> Tensor:
    wide = widen(v)
    (q1, q2), (k1, k2) = (tuple(t.to(wide) for t in pair) for pair in (q, k))
    return subtract_weights((q1, q2), (k1, k2), v.to(wide), lambdas.to(wide)).to(v.dtype)


RIGHT: dict[str, Context] = {
    "weights": subtract_weights,
    "contexts": subtract_contexts,
    "values": scale_values,
    "divided last": divide_last,
    "logarithms": by_logarithms,
    "kernels": by_kernels,
    "in float32": in_float32,
}
WRONG: dict[str, Context] = {
    "none": lambda q, k, v, t: subtract_weights(q, k, v, 0 * t),
    "added": lambda q, k, v, t: subtract_weights(q, k, v, -t),
    "exchanged": lambda q, k, v, t: subtract_weights(q[::-1], k[::-1], v, t),
    "a thousandth more": lambda q, k, v, t: subtract_weights(q, k, v, 1.001 * t),
}


def draw(case: Case, spread: float) -> tuple[Tensor, Parameters]:
    """Return tokens and parameters that are exact in the case's dtype."""
    x, p = make_tokens(case, CONTRACT), make_parameters(case, CONTRACT)
    assert p.lambdas is not None
    return x, replace(p, lambdas=(spread * p.lambdas).to(DTYPES[case.dtype]).double())


def attend(x: Tensor, p: Parameters, case: Case, compute: Context) -> Tensor:
    layers = (p.W_q, p.b_q), (p.W_k, p.b_k), (p.W_v, p.b_v)
    q, k, v = (split_heads(F.linear(x, w, b), case.heads) for w, b in layers)
    (q1, q2), (k1, k2) = q.chunk(2, -1), k.chunk(2, -1)
    assert p.W_o is not None and p.lambdas is not None
    context = compute((q1, q2), (k1, k2), v, p.lambdas[:, None, None])
    return F.linear(merge_heads(context), p.W_o, p.b_o)


EVIDENCE = Evidence(
    CONTRACT, RIGHT, WRONG, draw=draw, attend=attend, sizes=ODD_SIZES, spreads=(1.0, 1e-3, 1e3)
)
"""with lambdas near those of a case, and a thousand times as small and as large"""
