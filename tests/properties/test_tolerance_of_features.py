"""The evidence for the bounds of linear attention: right algorithms stay within, wrong do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. Scores are as sharp
as any of the exercise, and ten times as sharp, where some features are near zero. The largest ratio
of an output is 0.08, of a gradient 0.11.
"""

import itertools
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.bounds.attention import K
from headcheck.properties.cases.case_tensors import DTYPES, make_parameters, make_tokens
from headcheck.properties.terms.case import Case, InputContent
from headcheck.reference import (
    Parameters,
    causal_mask,
    merge_heads,
    recurrent_attention,
    split_heads,
)
from tests.properties.evidence import find_worst, measure_gradients, measure_output
from tests.properties.test_tolerance_of_variants import SIZES, widen

CONTRACT = BY_SLUG["linear_attention"].contract
TRIED = ["float64", "float32", "bfloat16"]
DTYPE = pytest.mark.sampled("dtype", TRIED, TRIED[:1])
SPREADS = (1.0, 3.0)
"""times the queries and keys of a case"""

Context = Callable[[Tensor, Tensor, Tensor], Tensor]
"""what heads give, of queries and keys that are no features yet, and of values"""


def make_features(t: Tensor) -> Tensor:
    return F.elu(t) + 1


def by_hand(t: Tensor) -> Tensor:
    return t.relu() + t.clamp(max=0).exp()


def divide_products(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    products = (make_features(q) @ make_features(k).mT).tril()
    return products / products.sum(-1, keepdim=True) @ v


def divide_last(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    products = (by_hand(q) @ by_hand(k).mT).tril()
    return products @ v / products.sum(-1, keepdim=True)


def run_sums(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = make_features(q), make_features(k)
    mixed = (k.unsqueeze(-1) * v.unsqueeze(-2)).cumsum(-3)
    return (q.unsqueeze(-2) @ mixed).squeeze(-2) / (q * k.cumsum(-2)).sum(-1, keepdim=True)


def token_by_token(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return recurrent_attention(make_features(q), by_hand(k), v)


def in_chunks(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    q, k = make_features(q), make_features(k)
    mixed, total, rows = 0 * k[..., :1, :].mT @ v[..., :1, :], 0 * k[..., :1, :].mT, []
    for one, other, value in zip(*(t.split(5, -2) for t in (q, k, v)), strict=True):
        own = (one @ other.mT).tril()
        top, bottom = one @ mixed + own @ value, one @ total + own.sum(-1, keepdim=True)
        rows.append(top / bottom)
        mixed, total = mixed + other.mT @ value, total + other.sum(-2).unsqueeze(-1)
    return torch.cat(rows, -2)


def by_logarithms(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    products = by_hand(q) @ by_hand(k).mT
    hidden = ~causal_mask(q.shape[-2])
    return products.log().masked_fill(hidden, -torch.inf).softmax(-1) @ v


def in_float32(q: Tensor, k: Tensor, v: Tensor) -> Tensor:
    return run_sums(*(t.to(widen(v)) for t in (q, k, v))).to(v.dtype)


RIGHT: dict[str, Context] = {
    "products": divide_products,
    "divided last": divide_last,
    "running sums": run_sums,
    "token by token": token_by_token,
    "chunks": in_chunks,
    "logarithms": by_logarithms,
    "in float32": in_float32,
}
WRONG: dict[str, Context] = {
    "scaled": lambda q, k, v: run_sums(q / 2, k, v),
    "keys as they are": lambda q, k, v: divide_products(q, k.exp().log1p(), v),
    "a softmax": lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True),
    "a thousandth more": lambda q, k, v: run_sums(q + 1e-3, k, v),
}


# -------------------------------------------------------------------------------------- judging


def list_cases(dtype: str) -> Iterator[tuple[Case, float]]:
    """Sizes, scores and contents, each with scores of every spread."""
    for size, sharpness, content in itertools.product(
        SIZES, (1, 2), (InputContent.NORMAL, InputContent.ZERO)
    ):
        drawn = replace(size, head_dim=size.head_dim + size.tokens % 2, sharpness=sharpness)
        case = CONTRACT.fit(replace(drawn, content=content, dtype=dtype, seed=3))
        yield from ((case, spread) for spread in SPREADS)


def draw(case: Case, spread: float) -> tuple[Tensor, Parameters]:
    """Return tokens and parameters that are exact in the case's dtype."""
    x, p = make_tokens(case, CONTRACT), make_parameters(case, CONTRACT)
    wider = ((spread * t).to(DTYPES[case.dtype]).double() for t in (p.W_q, p.W_k))
    return x, replace(p, W_q=next(wider), W_k=next(wider))


def attend(x: Tensor, p: Parameters, case: Case, compute: Context) -> Tensor:
    layers = (p.W_q, p.b_q), (p.W_k, p.b_k), (p.W_v, p.b_v)
    q, k, v = (split_heads(F.linear(x, w, b), case.heads) for w, b in layers)
    assert p.W_o is not None
    return F.linear(merge_heads(compute(q, k, v)), p.W_o, p.b_o)


def measure(case: Case, spread: float, compute: Context) -> float:
    own = partial(attend, case=case, compute=compute)
    return measure_output(CONTRACT, case, *draw(case, spread), own)


def measure_slopes(case: Case, spread: float, compute: Context) -> float:
    own = partial(attend, case=case, compute=compute)
    return measure_gradients(CONTRACT, case, *draw(case, spread), own)


@DTYPE
def test_right_algorithms_stay_within_the_bound(dtype: str) -> None:
    worst = find_worst(measure, RIGHT, list(list_cases(dtype)))
    print(worst)  # noqa: T201  # seen with -s
    assert worst[0] <= K


@DTYPE
def test_right_gradients_stay_within_their_limit(dtype: str) -> None:
    cases = list(list_cases(dtype))[::3]
    worst = find_worst(measure_slopes, RIGHT, cases)
    print(worst)  # noqa: T201  # seen with -s
    assert worst[0] <= K


def test_wrong_algorithms_are_far_beyond_the_bound() -> None:
    for name, compute in WRONG.items():
        drawn = [case for case, spread in list_cases("float64") if spread == 1]
        usual = [case for case in drawn if case.content is InputContent.NORMAL and case.tokens > 1]
        ratios = [measure(case, 1.0, compute) for case in usual]
        assert min(ratios) > 1e6, f"{name}: {sorted(ratios)[:5]}"
