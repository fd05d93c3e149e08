"""Attention by many algorithms, right and wrong, for the tests of the tolerance."""

import math
from collections.abc import Callable

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor
from torch.nn.attention import SDPBackend, sdpa_kernel

Algorithm = Callable[[Tensor, Tensor, Tensor, float, Tensor], Tensor]


def compute_scores(q: Tensor, k: Tensor, scale: float, mask: Tensor) -> Tensor:
    return (q @ k.mT * scale).masked_fill(~mask, -torch.inf)


def eager(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    return compute_scores(q, k, scale, mask).softmax(-1) @ v


def divided(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    return (q @ k.mT / (1 / scale)).masked_fill(~mask, -torch.inf).softmax(-1) @ v


def masked_before_scaling(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    return ((q @ k.mT).masked_fill(~mask, -torch.inf) * scale).softmax(-1) @ v


def scaled_query(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    return compute_scores(q * scale, k, 1.0, mask).softmax(-1) @ v


def scaled_both(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    return compute_scores(q * math.sqrt(scale), k * math.sqrt(scale), 1.0, mask).softmax(-1) @ v


def einsum(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    scores = torch.einsum("bhid,bhjd->bhij", q, k) * scale
    weights = scores.masked_fill(~mask, -torch.inf).softmax(-1)
    return torch.einsum("bhij,bhjd->bhid", weights, v)


def filled_with_a_number(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    fill = max(-1e9, torch.finfo(q.dtype).min)
    return (q @ k.mT * scale).masked_fill(~mask, fill).softmax(-1) @ v


def additive_mask(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    added = torch.zeros(mask.shape, dtype=q.dtype).masked_fill(~mask, -torch.inf)
    return (q @ k.mT * scale + added).softmax(-1) @ v


def softmax_by_hand(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    scores = compute_scores(q, k, scale, mask)
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return (e / e.sum(-1, keepdim=True)) @ v


def late_division(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    scores = compute_scores(q, k, scale, mask)
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return (e @ v) / e.sum(-1, keepdim=True)


def log_sum_exp(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    scores = compute_scores(q, k, scale, mask)
    return (scores - scores.logsumexp(-1, keepdim=True)).exp() @ v


def log_softmax(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    return compute_scores(q, k, scale, mask).log_softmax(-1).exp() @ v


def make_torch_algorithm(backend: SDPBackend) -> Algorithm:
    def fused(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
        with sdpa_kernel(backend):
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, scale=scale)

    return fused


def loop(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
    rows = []
    for i in range(q.shape[-2]):
        scores = ((q[..., i : i + 1, :] * k).sum(-1) * scale).masked_fill(~mask[i], -torch.inf)
        rows.append((scores.softmax(-1).unsqueeze(-1) * v).sum(-2))
    return torch.stack(rows, -2)


def online(block: int) -> Algorithm:
    """One block of keys after another, accumulated in float32 or better."""

    def attend(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Tensor:
        wide = torch.promote_types(q.dtype, torch.float32)
        top = torch.full((*q.shape[:-1], 1), -torch.inf, dtype=wide)
        total, output = torch.zeros_like(top), torch.zeros(v.shape, dtype=wide)
        for start in range(0, k.shape[-2], block):
            keys, seen = k[..., start : start + block, :], mask[:, start : start + block]
            scores = ((q @ keys.mT).to(wide) * scale).masked_fill(~seen, -torch.inf)
            higher = torch.maximum(top, scores.amax(-1, keepdim=True)).detach()
            shift = torch.where(higher == -torch.inf, 0.0, higher)
            keep, e = (top - shift).exp(), (scores - shift).exp()
            total = keep * total + e.sum(-1, keepdim=True)
            found = e.to(q.dtype) @ v[..., start : start + block, :]
            output, top = keep * output + found.to(wide), higher
        return (output / total).to(q.dtype)

    return attend


RIGHT: dict[str, Algorithm] = {
    "eager": eager,
    "divided": divided,
    "masked before scaling": masked_before_scaling,
    "scaled query": scaled_query,
    "scaled query and key": scaled_both,
    "einsum": einsum,
    "-1e9 fill": filled_with_a_number,
    "additive mask": additive_mask,
    "softmax by hand": softmax_by_hand,
    "late division": late_division,
    "exp(s - lse)": log_sum_exp,
    "exp(log_softmax)": log_softmax,
    "torch, math": make_torch_algorithm(SDPBackend.MATH),
    "torch, flash": make_torch_algorithm(SDPBackend.FLASH_ATTENTION),
    "loop": loop,
    "online, block 1": online(1),
    "online, block 16": online(16),
}


def rescale(change: Callable[[float, int], float]) -> Algorithm:
    """Attention whose scale is another function of the right one and of the width."""
    return lambda q, k, v, scale, mask: eager(q, k, v, change(scale, q.shape[-1]), mask)


def remask(change: Callable[[Tensor], Tensor]) -> Algorithm:
    """Attention under another mask; rows without a key give zeros."""
    return lambda q, k, v, scale, mask: eager(q, k, v, scale, change(mask)).nan_to_num()


def refill(fill: float) -> Algorithm:
    """Attention whose hidden scores are this number."""
    return lambda q, k, v, scale, mask: (q @ k.mT * scale).masked_fill(~mask, fill).softmax(-1) @ v


def reweight(change: Callable[[Tensor, Tensor], Tensor]) -> Algorithm:
    """Attention whose weights are another function of the visible scores."""
    return lambda q, k, v, scale, mask: change(compute_scores(q, k, scale, mask), mask) @ v


def softmax_with_epsilon(scores: Tensor, mask: Tensor) -> Tensor:
    e = (scores - scores.amax(-1, keepdim=True)).exp()
    return e / (e.sum(-1, keepdim=True) + 1e-3)


WRONG: dict[str, Algorithm] = {
    "no scale": rescale(lambda scale, d: 1.0),
    "scaled twice": rescale(lambda scale, d: scale * scale),
    "scaled by the width of two heads": rescale(lambda scale, d: scale / math.sqrt(2)),
    "scale off by 1 %": rescale(lambda scale, d: scale * 1.01),
    "no mask": remask(torch.ones_like),
    "diagonal hidden": remask(lambda mask: mask.tril(-1)),
    "one token ahead": remask(lambda mask: torch.ones_like(mask).tril(1)),
    "mask transposed": remask(lambda mask: mask.mT),
    "first token hidden": remask(lambda m: m & (torch.arange(m.shape[-1]) > 0)),
    "filled with zero": refill(0.0),
    "filled with 1e-9": refill(1e-9),
    "filled with -10": refill(-10.0),
    "softmax over queries": reweight(lambda s, mask: s.softmax(-2).nan_to_num()),
    "softmax twice": reweight(
        lambda s, mask: s.softmax(-1).masked_fill(~mask, -torch.inf).softmax(-1)
    ),
    "masked after softmax": lambda q, k, v, scale, mask: (
        ((q @ k.mT * scale).softmax(-1) * mask) @ v
    ),
    "1e-3 in the denominator": reweight(softmax_with_epsilon),
    "weights rounded to half": reweight(lambda s, mask: s.softmax(-1).half().double()),
    "query and key exchanged": lambda q, k, v, scale, mask: eager(k, q, v, scale, mask),
}


@pytest.fixture(scope="session")
def right_algorithms() -> dict[str, Algorithm]:
    """Attention of (query, key, value, scale, may_attend), each by another order of operations."""
    return RIGHT


@pytest.fixture(scope="session")
def wrong_algorithms() -> dict[str, Algorithm]:
    """The same with one fault each."""
    return WRONG
