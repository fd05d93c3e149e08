"""The evidence for the tolerance where heads share keys, and where there is a window.

As in `test_tolerance.py`, a ratio is an error over B, and up to K = 4 is accepted. The exact answer
is that of plain attention in long double, with the rows of shared keys and values repeated. Of the
right modules here the largest ratio of an output is 0.24, of a gradient 0.14;
the smallest of a wrong one in float64, in its worst element, is 4e12.
"""

import itertools
import math
from collections.abc import Callable, Iterator
from dataclasses import replace

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.bounds.attention import K
from headcheck.properties.bounds.gradients import Loss, compute_gradients
from headcheck.properties.bounds.oracle import compute_expected
from headcheck.properties.bounds.precision import PRECISIONS
from headcheck.properties.cases.case_tensors import (
    DTYPES,
    draw_normal,
    make_parameters,
    make_tokens,
    round_to_dtype,
)
from headcheck.properties.contracts.contract import Capability
from headcheck.properties.terms.case import Case, InputContent
from headcheck.reference import Parameters, merge_heads, sliding_window_mask, split_heads
from tests.properties.test_tolerance import (
    CONTRACT,
    Algorithm,
    Long,
    Worst,
    distance,
    long_module,
    within_bounds,
)

SHARED = replace(CONTRACT, capabilities=CONTRACT.capabilities | {Capability.GROUPED})
WINDOWED = replace(CONTRACT, capabilities=CONTRACT.capabilities | {Capability.WINDOW})
SIZES = (
    Case(batch=1, tokens=1, context_length=1, d_in=1, heads=2, group=2, head_dim=1, window=1),
    Case(batch=2, tokens=5, context_length=5, d_in=3, heads=4, group=2, head_dim=3, window=2),
    Case(batch=1, tokens=24, context_length=24, d_in=16, heads=8, group=8, head_dim=1, window=5),
    Case(batch=3, tokens=9, context_length=9, d_in=64, heads=6, group=3, head_dim=8, window=4),
    Case(batch=2, tokens=40, context_length=40, d_in=8, heads=8, group=4, head_dim=4, window=99),
)
Attend = Callable[[Tensor, Tensor, Tensor, Tensor], Tensor]
"""attention of queries with fewer heads of keys and values, under a mask"""


def settings_of(dtype: str) -> Iterator[tuple[bool, Case]]:
    """Yield cases, each with shared keys and with a window."""
    contents = (InputContent.NORMAL, InputContent.OUTLIER)
    for size, sharpness, content in itertools.product(SIZES, (1, 8, 64), contents):
        case = replace(size, sharpness=sharpness, content=content, dtype=dtype, bias=True, seed=3)
        yield True, SHARED.fit(case)
        yield False, WINDOWED.fit(case)


def repeated(attend: Algorithm) -> Attend:
    """Repeat keys and values for every head, then attend."""

    def wider(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
        group = q.shape[1] // k.shape[1]
        k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
        return attend(q, k, v, 1 / math.sqrt(q.shape[-1]), mask)

    return wider


def grouped(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    q = q.unflatten(1, (k.shape[1], -1)) / math.sqrt(q.shape[-1])
    scores = torch.einsum("bngid,bnjd->bngij", q, k).masked_fill(~mask, -torch.inf)
    return torch.einsum("bngij,bnjd->bngid", scores.softmax(-1), v).flatten(1, 2)


def fused(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=True)


def sliced(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """Attend to the keys that a token sees and to no others, one token after the other."""
    group, rows = q.shape[1] // k.shape[1], []
    k, v = (t.repeat_interleave(group, dim=1) for t in (k, v))
    for i, seen in enumerate(mask):
        scores = q[:, :, i : i + 1] @ k[:, :, seen].mT / math.sqrt(q.shape[-1])
        rows.append(scores.softmax(-1) @ v[:, :, seen])
    return torch.cat(rows, dim=2)


PARTS = 4
"""of the algorithms that know no sharing, each case meets so small a part"""
OWN: dict[str, Attend] = {"grouped": grouped, "fused": fused, "sliced": sliced}


def compute(x: Tensor, p: Parameters, case: Case, attend: Attend, mask: Tensor) -> Tensor:
    q = split_heads(F.linear(x, p.W_q, p.b_q), case.heads)
    k = split_heads(F.linear(x, p.W_k, p.b_k), case.kv_heads)
    v = split_heads(F.linear(x, p.W_v, p.b_v), case.kv_heads)
    assert p.W_o is not None
    return F.linear(merge_heads(attend(q, k, v, mask)), p.W_o, p.b_o)


def repeat_rows(p: Parameters, case: Case) -> Parameters:
    """Return the parameters of plain attention that computes the same."""
    wide = {
        name: t.unflatten(0, (case.kv_heads, -1))
        .repeat_interleave(case.heads // case.kv_heads, dim=0)
        .flatten(0, 1)
        for name, t in p.items()
        if name[-1] in "kv"
    }
    return replace(p, **wide)


def add_repeated(name: str, gradient: Long, case: Case) -> Long:
    """Add up what the copies of shared rows get."""
    if name[-1] not in "kv":
        return gradient
    copies = gradient.reshape(case.kv_heads, -1, case.head_dim, *gradient.shape[1:])
    rows: Long = copies.sum(1).reshape(-1, *gradient.shape[1:])
    return rows


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_right_modules_and_their_gradients_stay_within_the_bound(
    dtype: str, right_algorithms: dict[str, Algorithm]
) -> None:
    plain = [(name, repeated(attend)) for name, attend in right_algorithms.items()]
    outputs, gradients = [], []
    for number, (is_shared, case) in enumerate(settings_of(dtype)):
        contract = SHARED if is_shared else WINDOWED
        mask = sliding_window_mask(case.tokens, case.window or case.tokens)
        p, x = make_parameters(case, contract), make_tokens(case, contract)
        drawn = draw_normal(case, "cotangent", case.batch, case.tokens, case.d_out)
        cotangent = round_to_dtype(drawn, case)
        expected = compute_expected(contract, case, x, p, mask)
        oracle = compute_gradients(contract, case, x, p, mask, Loss(cotangent))
        right, _, exact = long_module(x, repeat_rows(p, case), case, mask, cotangent)
        for name, attend in (*OWN.items(), *plain[number % PARTS :: PARTS]):
            kind = DTYPES[dtype]
            leaves = {n: t.to(kind).clone().requires_grad_() for n, t in (("x", x), *p.items())}
            own = Parameters(**{n: t for n, t in leaves.items() if n != "x"})
            output = compute(leaves["x"], own, case, attend, mask)
            ratio = float((distance(output, right) / expected.tolerances[0].exact).max()) * K
            outputs.append(Worst(ratio, f"{name}, {case}"))
            output.backward(cotangent.to(kind))
            for leaf, tensor in leaves.items():
                assert tensor.grad is not None, f"{name} gives {leaf} no gradient"
                unit = PRECISIONS[dtype].u * oracle.growth * (oracle.scales[leaf] + 1e-30)
                error = distance(tensor.grad, add_repeated(leaf, exact[leaf], case))
                gradients.append(Worst(float((error / unit).max()), f"{name}, {leaf}, {case}"))
    within_bounds(outputs)
    within_bounds(gradients)


def in_turn(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    group = q.shape[1] // k.shape[1]
    return fused(q, k.repeat(1, group, 1, 1), v.repeat(1, group, 1, 1), mask)


def keys_in_turn(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    group = q.shape[1] // k.shape[1]
    return fused(q, k.repeat(1, group, 1, 1), v.repeat_interleave(group, dim=1), mask)


def first_for_all(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return fused(q, k[:, :1], v[:, :1], mask)


def averaged(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    return fused(q, k.mean(1, keepdim=True), v.mean(1, keepdim=True), mask)


def changed_mask(change: Callable[[Tensor, int], Tensor]) -> Callable[[Case], Attend]:
    def wrong(case: Case) -> Attend:
        place = torch.arange(case.tokens)
        seen = change(place[:, None] - place, case.window)
        return lambda q, k, v, mask: fused(q, k, v, seen)

    return wrong


WRONG_SHARING: dict[str, Attend] = {
    "in turn": in_turn,
    "keys in turn": keys_in_turn,
    "first for all": first_for_all,
    "averaged": averaged,
}
WRONG_WINDOWS = {
    "none": changed_mask(lambda back, window: back >= 0),
    "longer": changed_mask(lambda back, window: (back >= 0) & (back <= window)),
    "shorter": changed_mask(lambda back, window: (back >= 0) & (back < max(1, window - 1))),
    "both sides": changed_mask(lambda back, window: back.abs() < window),
}


def measure(case: Case, is_shared: bool, attend: Attend) -> float:
    contract = SHARED if is_shared else WINDOWED
    mask = sliding_window_mask(case.tokens, case.window or case.tokens)
    p, x = make_parameters(case, contract), make_tokens(case, contract)
    expected = compute_expected(contract, case, x, p, mask)
    output = compute(x, p, case, attend, mask)
    error = (output - expected.outputs[0]).abs() / expected.tolerances[0].exact
    return float(error.max()) * K


def test_wrong_modules_are_far_beyond_the_bound_in_float64() -> None:
    found = []
    for is_shared, case in settings_of("float64"):
        if is_shared and case.kv_heads > 1:
            wrong = WRONG_SHARING
        elif not is_shared and 1 < case.window < case.tokens:
            wrong = {name: make(case) for name, make in WRONG_WINDOWS.items()}
        else:
            continue
        for name, attend in wrong.items():
            if case.sharpness < 64:  # a weight may be next to nothing where all is sharp
                found.append(Worst(measure(case, is_shared, attend), f"{name}, {case}"))
    smallest = min(found, key=lambda w: w.ratio)
    assert len(found) >= 40
    assert smallest.ratio > 1e9, f"the smallest of {len(found)} errors is {smallest}"
