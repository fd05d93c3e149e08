"""The evidence for the bounds of sinks: right algorithms stay within, wrong do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. Sinks are drawn
near zero, and far above and below: by 6, 40 and 3000. The largest ratio of an output is 0.66, of a
gradient 0.39, both in float64.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.cases.case_tensors import DTYPES, make_parameters, make_tokens
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters, causal_mask
from tests.properties.evidence import ODD_SIZES, Evidence, finish, hide, project, widen

CONTRACT = BY_SLUG["attention_sink"].contract

Context = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""what heads give, from queries that are scaled, keys, values and sinks of shape (heads, 1, 1)"""


def score(q: Tensor, k: Tensor) -> Tensor:
    return hide(q @ k.mT)


def add_column(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
    scores = score(q, k)
    column = sinks.expand(*scores.shape[:-1], 1)
    return torch.cat([scores, column], dim=-1).softmax(-1)[..., :-1] @ v


def normalise_by_hand(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
    scores = score(q, k)
    top = torch.maximum(scores.amax(-1, keepdim=True), sinks).detach()
    powers = (scores - top).exp()
    return powers / (powers.sum(-1, keepdim=True) + (sinks - top).exp()) @ v


def divide_last(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
    scores = score(q, k)
    top = torch.maximum(scores.amax(-1, keepdim=True), sinks).detach()
    powers = (scores - top).exp()
    return (powers @ v) / (powers.sum(-1, keepdim=True) + (sinks - top).exp())


def leave_a_sigmoid(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
    scores = score(q, k)
    left = torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sinks)
    return scores.softmax(-1) * left @ v


def shrink_the_context(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
    scores = score(q, k)
    return torch.sigmoid(scores.logsumexp(-1, keepdim=True) - sinks) * (scores.softmax(-1) @ v)


def subtract_all(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
    scores = score(q, k)
    return (scores - torch.logaddexp(scores.logsumexp(-1, keepdim=True), sinks)).exp() @ v


def add_key(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
    k, v = (F.pad(t, (0, 0, 0, 1)) for t in (k, v))
    future = torch.zeros(q.shape[-2:-1] * 2, dtype=q.dtype)
    future = future.masked_fill(~causal_mask(len(future)), -torch.inf)
    sizes = *q.shape[:-1], 1
    added = torch.cat([future.expand(*sizes[:-1], -1), sinks.expand(sizes)], dim=-1)
    return F.scaled_dot_product_attention(q, k, v, attn_mask=added, scale=1.0)


def in_float32(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
    return add_column(*(t.to(widen(q)) for t in (q, k, v, sinks))).to(q.dtype)


def one_key_at_a_time(q: Tensor, k: Tensor, v: Tensor, sinks: Tensor) -> Tensor:
    scores = score(q, k).to(widen(q))
    top = sinks.to(widen(q)).expand(*q.shape[:-1], 1)
    total, mixed = torch.ones_like(top), torch.zeros_like(v, dtype=widen(q))
    for j in range(k.shape[-2]):
        largest = torch.maximum(top, scores[..., j : j + 1])
        shrink, power = (top - largest).exp(), (scores[..., j : j + 1] - largest).exp()
        total, top = total * shrink + power, largest
        mixed = mixed * shrink + power * v[..., j, None, :]
    return (mixed / total).to(q.dtype)


RIGHT: dict[str, Context] = {
    "one more column": add_column,
    "by hand": normalise_by_hand,
    "divided last": divide_last,
    "a sigmoid of the weights": leave_a_sigmoid,
    "a sigmoid of the context": shrink_the_context,
    "one logarithm": subtract_all,
    "one more key": add_key,
    "in float32": in_float32,
    "one key at a time": one_key_at_a_time,
}
WRONG: dict[str, Context] = {
    "no sink": lambda q, k, v, _: score(q, k).softmax(-1) @ v,
    "a sink of zero": lambda q, k, v, sinks: add_column(q, k, v, 0 * sinks),
    "scaled": lambda q, k, v, sinks: add_column(q, k, v, sinks / 2),
    "another sign": lambda q, k, v, sinks: add_column(q, k, v, -sinks),
    "other heads": lambda q, k, v, sinks: add_column(q, k, v, sinks.roll(1, 0) + 1e-3),
}


def draw(case: Case, far: float) -> tuple[Tensor, Parameters]:
    """Return tokens and parameters that are exact in the case's dtype."""
    x, p = make_tokens(case, CONTRACT), make_parameters(case, CONTRACT)
    assert p.sinks is not None
    return x, replace(p, sinks=(p.sinks + far).to(DTYPES[case.dtype]).double())


def attend(x: Tensor, p: Parameters, case: Case, compute: Context) -> Tensor:
    q, k, v = project(x, p, case.heads)
    assert p.sinks is not None
    return finish(compute(q / case.head_dim**0.5, k, v, p.sinks[:, None, None]), p)


EVIDENCE = Evidence(
    CONTRACT,
    RIGHT,
    WRONG,
    draw=draw,
    attend=attend,
    sizes=ODD_SIZES,
    spreads=(0.0, 6.0, -6.0, 40.0, -40.0, 3000.0, -3000.0),
    at_once=3,
    sharpness=(1, 8, 64),
    # Where scores are sharp, all weight may go to one key or to the sink.
    share=2 / 3,
)
