"""The evidence for the bounds of differential attention: who is right stays within, others do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. Lambdas are drawn
near 0.5, and a thousand times as large and as small. The largest ratio of an output is 0.29, in
bfloat16, of a gradient 0.04.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters
from tests.properties.evidence import ODD_SIZES, Evidence, finish, project, score, spreading, widen

CONTRACT = BY_SLUG["differential_attention"].contract

Pair = tuple[Tensor, Tensor]
Context = Callable[[Pair, Pair, Tensor, Tensor], Tensor]
"""what heads give, of both halves of queries and keys, of values, and lambdas of (heads, 1, 1)"""


def read_causal(q: Tensor, k: Tensor) -> Tensor:
    return score(q, k)


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


def attend(x: Tensor, p: Parameters, case: Case, compute: Context) -> Tensor:
    q, k, v = project(x, p, case.heads)
    (q1, q2), (k1, k2) = q.chunk(2, -1), k.chunk(2, -1)
    assert p.lambdas is not None
    return finish(compute((q1, q2), (k1, k2), v, p.lambdas[:, None, None]), p)


DRAW = spreading(CONTRACT, "lambdas")
EVIDENCE = Evidence(
    CONTRACT, RIGHT, WRONG, draw=DRAW, attend=attend, sizes=ODD_SIZES, spreads=(1.0, 1e-3, 1e3)
)
"""with lambdas near those of a case, and a thousand times as small and as large"""
