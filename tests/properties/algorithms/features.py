"""The evidence for the bounds of linear attention: right algorithms stay within, wrong do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. Scores are as sharp
as any of the exercise, and ten times as sharp, where some features are near zero. The largest ratio
of an output is 0.08, of a gradient 0.11.
"""

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.terms.case import Case, InputContent
from headcheck.reference import Parameters, recurrent_attention
from tests.properties.evidence import ODD_SIZES, Evidence, finish, hide, project, spreading, widen

CONTRACT = BY_SLUG["linear_attention"].contract

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
    return hide((by_hand(q) @ by_hand(k).mT).log()).softmax(-1) @ v


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


def attend(x: Tensor, p: Parameters, case: Case, compute: Context) -> Tensor:
    return finish(compute(*project(x, p, case.heads)), p)


EVIDENCE = Evidence(
    CONTRACT,
    RIGHT,
    WRONG,
    draw=spreading(CONTRACT, "W_q", "W_k"),
    attend=attend,
    sizes=ODD_SIZES,
    spreads=(1.0, 3.0),
    sharpness=(1, 2),
    contents=(InputContent.NORMAL, InputContent.ZERO),
)
