"""The evidence for the bounds of latent attention: who is right stays within, others do not.

A ratio is the difference from the oracle over B; up to K·B, K = 4, is accepted. Of keys and values
nothing cancels in the layers that make them, or all but a sixteenth. The largest ratio of an output
is 0.09, in bfloat16, of a gradient 0.08.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.exercises import BY_SLUG
from headcheck.properties.cases.case_tensors import DTYPES, make_parameters, make_tokens
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters, Variant, split_heads
from tests.properties.evidence import SIZES, Evidence, finish, hide, widen

CONTRACT = BY_SLUG["latent_attention"].contract

Context = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]
"""what heads give, of both parts of queries, latents, the turned key, and the layers of heads"""


def weigh(scores: Tensor, width: int) -> Tensor:
    return hide(scores / width**0.5).softmax(-1)


def make_keys(q: Tensor, r: Tensor, c: Tensor, t: Tensor, up: Tensor, out: Tensor) -> Tensor:
    query = torch.cat([q, r], -1)
    key = torch.cat([c @ up.mT, t.expand(*q.shape[:-1], -1)], -1)
    return weigh(query @ key.mT, query.shape[-1]) @ (c @ out.mT)


def add_products(q: Tensor, r: Tensor, c: Tensor, t: Tensor, up: Tensor, out: Tensor) -> Tensor:
    scores = r @ t.mT + q @ (c @ up.mT).mT
    return weigh(scores, q.shape[-1] + r.shape[-1]) @ (c @ out.mT)


def absorb(q: Tensor, r: Tensor, c: Tensor, t: Tensor, up: Tensor, out: Tensor) -> Tensor:
    scores = (q @ up) @ c.mT + r @ t.mT
    return weigh(scores, q.shape[-1] + r.shape[-1]) @ c @ out.mT


def absorb_keys(q: Tensor, r: Tensor, c: Tensor, t: Tensor, up: Tensor, out: Tensor) -> Tensor:
    query = torch.cat([q @ up, r], -1)
    scores = query @ torch.cat([c, t], -1).mT
    return weigh(scores, q.shape[-1] + r.shape[-1]) @ (c @ out.mT)


def absorb_values(q: Tensor, r: Tensor, c: Tensor, t: Tensor, up: Tensor, out: Tensor) -> Tensor:
    scores = q @ (c @ up.mT).mT + r @ t.mT
    return (weigh(scores, q.shape[-1] + r.shape[-1]) @ c) @ out.mT


def by_kernel(q: Tensor, r: Tensor, c: Tensor, t: Tensor, up: Tensor, out: Tensor) -> Tensor:
    key = torch.cat([c @ up.mT, t.expand(*q.shape[:-1], -1)], -1)
    return F.scaled_dot_product_attention(torch.cat([q, r], -1), key, c @ out.mT, is_causal=True)


def in_float32(q: Tensor, r: Tensor, c: Tensor, t: Tensor, up: Tensor, out: Tensor) -> Tensor:
    wide = widen(c)
    q, r, c, t, up, out = (each.to(wide) for each in (q, r, c, t, up, out))
    return absorb(q, r, c, t, up, out)


RIGHT: dict[str, Context] = {
    "keys": make_keys,
    "two products": add_products,
    "absorbed": absorb,
    "absorbed keys": absorb_keys,
    "absorbed values": absorb_values,
    "kernel": by_kernel,
    "in float32": in_float32,
}
WRONG: dict[str, Context] = {
    "without the turned part": lambda q, r, c, t, up, out: make_keys(q, 0 * r, c, t, up, out),
    "without the other part": lambda q, r, c, t, up, out: make_keys(0 * q, r, c, t, up, out),
    "exchanged": lambda q, r, c, t, up, out: make_keys(q, r, c, t, out, up),
    "a thousandth more": lambda q, r, c, t, up, out: make_keys(1.001 * q, r, c, t, up, out),
}


def draw(case: Case, spread: float) -> tuple[Tensor, Parameters]:
    """Return tokens and parameters that are exact in the case's dtype."""
    x, p = make_tokens(case, CONTRACT), make_parameters(case, CONTRACT)
    assert p.W_down is not None
    half = case.d_latent // 2
    down, up, out = p.W_down.clone(), p.W_k.clone(), p.W_v.clone()
    if spread > 1 and half:
        down[half : 2 * half] = down[:half]
        for layer in (up, out):
            layer[:, half : 2 * half] = (1 / spread - 1) * layer[:, :half]
    rounded = (t.to(DTYPES[case.dtype]).double() for t in (down, up, out))
    return x, replace(p, **dict(zip(("W_down", "W_k", "W_v"), rounded, strict=True)))


def attend(x: Tensor, p: Parameters, case: Case, compute: Context) -> Tensor:
    assert p.W_down is not None and p.W_qr is not None and p.W_kr is not None
    place = Variant(rotary=True).place
    q, r = (split_heads(F.linear(x, w), case.heads) for w in (p.W_q, p.W_qr))
    c, t = F.linear(x, p.W_down).unsqueeze(1), F.linear(x, p.W_kr).unsqueeze(1)
    up, out = (w.unflatten(0, (case.heads, -1)) for w in (p.W_k, p.W_v))
    r, t = (place(each.to(widen(x))).to(x.dtype) for each in (r, t))
    return finish(compute(q, r, c, t, up, out).to(x.dtype), p)


EVIDENCE = Evidence(
    CONTRACT,
    RIGHT,
    WRONG,
    draw=draw,
    attend=attend,
    sizes=tuple(
        replace(size, d_latent=latent, rope_dim=2 + 2 * (size.tokens % 3))
        for size, latent in itertools.product(SIZES, (1, 6, 40))
    ),
    spreads=(1.0, 16.0),
)
