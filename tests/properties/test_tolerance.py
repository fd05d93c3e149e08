"""The evidence for the tolerance: right algorithms stay within it, wrong ones are far outside.

Errors of float64 are measured against numpy's long double, those of smaller dtypes against
float64. A ratio is an error over B; the judge accepts up to K·B, K = 4. On these grids the largest
ratio of a right algorithm is 0.95 (exp(s - lse) in bfloat16), of a whole module 0.47, of a gradient
0.18; the smallest of a wrong algorithm in float64, in its worst element, is 5e10.
"""

import itertools
import math
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

from headcheck.properties.bounds.attention import (
    K,
    RoundedAttention,
    bound_context_error,
    bound_score_error,
    bound_softmax_error,
    compute_bounds,
    move_weights,
)
from headcheck.properties.bounds.gradients import Loss, compute_gradients
from headcheck.properties.bounds.precision import PRECISIONS
from headcheck.properties.cases.case_tensors import (
    DTYPES,
    draw_normal,
    make_parameters,
    make_tokens,
    round_to_dtype,
)
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.terms.case import Case, InputContent
from headcheck.reference import (
    MultiHeadResult,
    Parameters,
    attention_weights,
    causal_mask,
    merge_heads,
    multi_head_attention,
    scaled_scores,
    split_heads,
)

Long = npt.NDArray[np.longdouble]
Algorithm = Callable[[Tensor, Tensor, Tensor, float, Tensor], Tensor]

if np.finfo(np.longdouble).eps > 2.0**-60:
    pytest.skip("long double is no wider than float64 here", allow_module_level=True)


@dataclass(frozen=True)
class Worst:
    """The largest (or smallest) ratio seen, and where."""

    ratio: float
    where: str

    def __str__(self) -> str:
        return f"{self.ratio:.3g} B, {self.where}"


def long(tensor: Tensor) -> Long:
    return tensor.detach().double().numpy().astype(np.longdouble)


def long_softmax(scores: Long, mask: Tensor) -> Long:
    scores = np.where(mask.numpy(), scores, -np.inf)
    e: Long = np.exp(scores - scores.max(-1, keepdims=True))
    weights: Long = e / e.sum(-1, keepdims=True)
    return weights


def distance(got: Tensor, exact: Long) -> Tensor:
    """Absolute errors; NaN, which no algorithm here may give, counts as infinite."""
    error = np.abs(got.detach().double().numpy().astype(np.longdouble) - exact)
    return torch.from_numpy(error.astype(np.float64)).nan_to_num(nan=torch.inf)


def mask_for(tokens: int, is_causal: bool) -> Tensor:
    return causal_mask(tokens) if is_causal else torch.ones(tokens, tokens, dtype=torch.bool)


# ------------------------------------------------------------------- attention alone

KINDS = ("normal", "offset 100", "outlier 1000", "identical tokens")


def drawn(
    n: int, d: int, spread: float, kind: str, dtype: str, seed: int = 0
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of two heads; the scaled scores have deviation `spread`."""
    generator = torch.Generator().manual_seed(seed)
    q, k, v = torch.randn(3, 1, 2, n, d, generator=generator, dtype=torch.float64)
    q, k = q * math.sqrt(spread), k * math.sqrt(spread)
    if kind == "offset 100":
        v = v + 100
    elif kind == "outlier 1000":
        v = torch.cat([v[..., :-1, :], v[..., -1:, :] * 1000], -2)
    elif kind == "identical tokens":
        q, k = q[..., :1, :].expand_as(q).clone(), k[..., :1, :].expand_as(k).clone()
    return q.to(DTYPES[dtype]), k.to(DTYPES[dtype]), v.to(DTYPES[dtype])


def core_bound(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor, dtype: str) -> Tensor:
    """B for attention alone, its inputs taken as exact."""
    q, k, v = q.double(), k.double(), v.double()
    weights = attention_weights(q, k, mask, scale)
    merged = merge_heads(weights @ v)
    exact = MultiHeadResult((q, k, v), q, k, v, scaled_scores(q, k, scale), weights, merged, merged)
    zero, precision = torch.zeros_like(q), PRECISIONS[dtype]
    errors = bound_score_error(exact, zero, zero, scale, precision, mask)
    arithmetic = bound_softmax_error(exact, precision)
    return bound_context_error(exact, errors, arithmetic, zero, precision)


def core_exact(q: Tensor, k: Tensor, v: Tensor, scale: float, mask: Tensor) -> Long:
    wide = long if q.dtype == torch.float64 else lambda t: t.double().numpy()
    scores = np.matmul(wide(q), wide(k).swapaxes(-1, -2)) * scale
    exact: Long = np.matmul(long_softmax(scores, mask), wide(v))
    return exact


def core_ratios(
    algorithms: dict[str, Algorithm],
    n: int,
    d: int,
    dtype: str,
    spreads: Iterable[float],
    kinds: Iterable[str],
    causal_only: bool = False,
) -> list[Worst]:
    """The largest error over B of every algorithm on every setting of one size."""
    scale, found = 1 / math.sqrt(d), []
    settings = list(itertools.product(spreads, kinds))
    for is_causal in (True,) if causal_only else (True, False):
        mask = mask_for(n, is_causal)
        inputs = [drawn(n, d, spread, kind, dtype) for spread, kind in settings]
        q, k, v = (torch.cat(tensors) for tensors in zip(*inputs, strict=True))
        exact = core_exact(q, k, v, scale, mask)
        # Each setting has a bound of its own: an outlier in one must not widen another's.
        limit = torch.cat([core_bound(*one, scale, mask, dtype) for one in inputs])
        for name, attend in algorithms.items():
            ratios = distance(attend(q, k, v, scale, mask), exact) / limit.clamp_min(1e-300)
            for (spread, kind), ratio in zip(settings, ratios.flatten(1).amax(1), strict=True):
                at = f"{name}, {dtype}, n={n} d={d} std={spread:g}, {kind}, causal={is_causal}"
                found.append(Worst(float(ratio), at))
    return found


def spreads_for(dtype: str) -> tuple[float, ...]:
    # Beyond these, float16 itself overflows.
    return (0, 1e-3, 1, 8, 64) if dtype == "float16" else (0, 1e-3, 1, 8, 64, 512)


def within_bounds(found: list[Worst]) -> None:
    largest = max(found, key=lambda w: w.ratio)
    assert largest.ratio <= K, f"the largest of {len(found)} errors is {largest}"


LENGTHS = (1, 2, 7, 33)


@pytest.mark.sampled("lengths", [LENGTHS], [LENGTHS[:-1]], ids=str)
@pytest.mark.parametrize("dtype", sorted(PRECISIONS))
def test_right_algorithms_stay_within_the_bound(
    dtype: str, lengths: tuple[int, ...], right_algorithms: dict[str, Algorithm]
) -> None:
    found = []
    for n, d in itertools.product(lengths, (1, 2, 8, 64)):
        found += core_ratios(right_algorithms, n, d, dtype, spreads_for(dtype), KINDS)
    within_bounds(found)
    # Nor is it so wide that it could not tell: the worst error uses a good part of it.
    assert max(w.ratio for w in found) > 0.4


@pytest.mark.deep
@pytest.mark.parametrize("dtype", sorted(PRECISIONS))
def test_right_algorithms_stay_within_the_bound_when_long(
    dtype: str, right_algorithms: dict[str, Algorithm]
) -> None:
    few = {
        name: attend
        for name, attend in right_algorithms.items()
        if name not in ("loop", "online, block 1")
    }
    for n, d in ((65, 1), (65, 64), (128, 16), (257, 64), (300, 128)):
        within_bounds(core_ratios(few, n, d, dtype, spreads_for(dtype), KINDS))


def test_wrong_algorithms_are_far_beyond_the_bound_in_float64(
    wrong_algorithms: dict[str, Algorithm],
) -> None:
    found = []
    for n, d in itertools.product((3, 7, 16, 33), (2, 8, 64)):
        found += core_ratios(
            wrong_algorithms, n, d, "float64", (1, 8), ("normal",), causal_only=True
        )
    smallest = min(found, key=lambda w: w.ratio)
    assert len(wrong_algorithms) >= 12
    assert smallest.ratio > 1e9, f"the smallest of {len(found)} errors is {smallest}"


# -------------------------------------------------------------------- whole modules

CONTRACT = Contract(
    name="any",
    capabilities=frozenset(
        {
            *(
                Capability.MODULE,
                Capability.ATTENTION,
                Capability.TOKENS,
                Capability.PROJECTED,
                Capability.BATCH,
            ),
            *(
                Capability.HEADS,
                Capability.WIDTHS,
                Capability.BIAS,
                Capability.BIAS_OPTION,
                Capability.CAUSAL,
            ),
            *(Capability.CONTEXT, Capability.OUTPUT_PROJECTION, Capability.OUTPUT_BIAS),
        }
    ),
)
SIZES = (
    Case(batch=1, tokens=1, context_length=1, d_in=1, heads=1, head_dim=1),
    Case(batch=1, tokens=1, context_length=1, d_in=8, heads=2, head_dim=4, bias=True),
    Case(batch=2, tokens=5, context_length=5, d_in=3, heads=2, head_dim=3, bias=True),
    Case(batch=1, tokens=24, context_length=24, d_in=16, heads=4, head_dim=1),
    Case(batch=1, tokens=9, context_length=9, d_in=64, heads=3, head_dim=16, bias=True),
)
Projection = Callable[[Tensor, Parameters], list[Tensor]]


def biased(p: Parameters) -> list[Tensor | float]:
    return [0.0 if b is None else b for b in (p.b_q, p.b_k, p.b_v)]


def by_torch(x: Tensor, p: Parameters) -> list[Tensor]:
    return [F.linear(x, p.W_q, p.b_q), F.linear(x, p.W_k, p.b_k), F.linear(x, p.W_v, p.b_v)]


def by_products(x: Tensor, p: Parameters) -> list[Tensor]:
    return [x @ w.mT + b for w, b in zip((p.W_q, p.W_k, p.W_v), biased(p), strict=True)]


def by_fusion(x: Tensor, p: Parameters) -> list[Tensor]:
    fused = x @ torch.cat([p.W_q, p.W_k, p.W_v]).mT
    return [y + b for y, b in zip(fused.chunk(3, -1), biased(p), strict=True)]


PROJECTIONS: tuple[Projection, ...] = (by_torch, by_products, by_fusion)


def module(
    x: Tensor, p: Parameters, heads: int, project: Projection, attend: Algorithm, mask: Tensor
) -> Tensor:
    q, k, v = (split_heads(y, heads) for y in project(x, p))
    context = merge_heads(attend(q, k, v, 1 / math.sqrt(q.shape[-1]), mask))
    return context if p.W_o is None else F.linear(context, p.W_o, p.b_o)


def long_split(x: Long, heads: int) -> Long:
    return x.reshape(*x.shape[:-1], heads, -1).swapaxes(-2, -3)


def long_merge(x: Long) -> Long:
    return x.swapaxes(-2, -3).reshape(x.shape[0], x.shape[2], -1)


def long_module(
    x: Tensor, p: Parameters, case: Case, mask: Tensor, cotangent: Tensor
) -> tuple[Long, Long, dict[str, Long]]:
    """Output, weights and gradients by the chain rule, in long double."""
    given = {name: long(t) for name, t in p.items()}
    zero, tokens = np.longdouble(0), long(x)
    q, k, v = (
        long_split(tokens @ given[f"W_{n}"].T + given.get(f"b_{n}", zero), case.heads)
        for n in "qkv"
    )
    scale = 1 / np.sqrt(np.longdouble(case.head_dim))
    weights = long_softmax(scale * q @ k.swapaxes(-1, -2), mask)
    context = long_merge(weights @ v)
    output = context @ given["W_o"].T + given["b_o"]
    grad = long(cotangent)
    found = {"W_o": summed(grad, context), "b_o": grad.sum((0, 1))}
    into = long_split(grad @ given["W_o"], case.heads)
    into_weights = into @ v.swapaxes(-1, -2)
    mean = (weights * into_weights).sum(-1, keepdims=True)
    into_scores = scale * weights * (into_weights - mean)
    parts = {"q": into_scores @ k, "k": into_scores.swapaxes(-1, -2) @ q}
    parts["v"] = weights.swapaxes(-1, -2) @ into
    found["x"] = np.zeros_like(tokens)
    for name, part in parts.items():
        merged = long_merge(part)
        found["x"] = found["x"] + merged @ given[f"W_{name}"]
        found[f"W_{name}"], found[f"b_{name}"] = summed(merged, tokens), merged.sum((0, 1))
    return output, weights, found


def summed(rows: Long, columns: Long) -> Long:
    """Σ over the batch of rowsᵀ columns."""
    total: Long = np.einsum("bti,btj->ij", rows, columns)
    return total


def settings_of_modules(dtype: str) -> list[tuple[Case, Parameters, Tensor]]:
    """Cases with their parameters and tokens; in most of them large numbers cancel somewhere."""
    return [
        (case, *changed(case, where))
        for size, sharpness, content, where in itertools.product(
            SIZES, (1, 8, 64), (InputContent.NORMAL, InputContent.OUTLIER), CANCELS
        )
        for case in [replace(size, sharpness=sharpness, content=content, dtype=dtype, seed=3)]
        if size.bias or where not in ("average", "value")
        # A product rounded to 16 bits before its bias is added may lose all of it to
        # cancellation. The theory leaves that out: in 16 bits no values are judged.
        if where != "value" or dtype != "bfloat16"
    ]


CANCELS = ("nowhere", "average", "value", "projection")


def changed(case: Case, where: str) -> tuple[Parameters, Tensor]:
    """The case's parameters and tokens, so changed that terms of this step cancel."""
    p, x = make_parameters(case, CONTRACT), make_tokens(case, CONTRACT)
    if where == "average":
        assert p.b_v is not None
        p = replace(p, b_v=round_to_dtype(p.b_v + 100, case))
    elif where == "value":
        p = replace(p, b_v=round_to_dtype(-(p.W_v @ x[0, -1]), case))
    elif where == "projection":
        x = round_to_dtype(x + 100, case)
        centred = {
            n: round_to_dtype(t - t.mean(1, keepdim=True), case) for n, t in p.items() if "W" in n
        }
        p = replace(p, **centred)
    return p, x


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_right_modules_stay_within_the_bound(
    dtype: str, right_algorithms: dict[str, Algorithm]
) -> None:
    # 17 algorithms and 3 projections: from case to case each meets another.
    found, projections = [], itertools.cycle(PROJECTIONS)
    for case, p, x in settings_of_modules(dtype):
        mask, kind = causal_mask(case.tokens), DTYPES[dtype]
        exact = multi_head_attention(x, p, case.heads, mask)
        scale = 1 / math.sqrt(case.head_dim)
        limit, of_weights = compute_bounds(
            RoundedAttention(x, p, exact, scale, PRECISIONS[dtype], mask)
        )
        output, weights, _ = long_module(x, p, case, mask, torch.zeros_like(exact.output))
        narrow, own = x.to(kind), Parameters(**{n: t.to(kind) for n, t in p.items()})
        for name, attend in right_algorithms.items():
            project = next(projections)
            got = module(narrow, own, case.heads, project, attend, mask)
            ratio = float((distance(got, output) / limit).max()) * K
            found.append(Worst(ratio, f"{name}, {project.__name__}, {case}"))
        q, k = (split_heads(y, case.heads) for y in by_torch(narrow, own)[:2])
        scores = (q @ k.mT * scale).masked_fill(~mask, -torch.inf)
        for form in (scores.softmax(-1), scores.log_softmax(-1).exp()):
            ratio = float((distance(form, weights) / of_weights).max()) * K
            found.append(Worst(ratio, f"weights, {case}"))
    within_bounds(found)


@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
def test_right_gradients_stay_within_their_limit(
    dtype: str, right_algorithms: dict[str, Algorithm]
) -> None:
    found = []
    # Every third meets all values of all factors; backward costs several times forward.
    for case, p, x in settings_of_modules(dtype)[::3]:
        mask, kind = causal_mask(case.tokens), DTYPES[dtype]
        cotangent = round_to_dtype(
            draw_normal(case, "cotangent", case.batch, case.tokens, case.d_out), case
        )
        oracle = compute_gradients(CONTRACT, case, x, p, mask, Loss(cotangent))
        exact = long_module(x, p, case, mask, cotangent)[2]
        for name, attend in right_algorithms.items():
            leaves = {n: t.to(kind).clone().requires_grad_() for n, t in (("x", x), *p.items())}
            own = Parameters(**{n: t for n, t in leaves.items() if n != "x"})
            output = module(leaves["x"], own, case.heads, by_torch, attend, mask)
            output.backward(cotangent.to(kind))
            for leaf, tensor in leaves.items():
                assert tensor.grad is not None, f"{name} gives {leaf} no gradient"
                unit = PRECISIONS[dtype].u * oracle.growth * (oracle.scales[leaf] + 1e-30)
                ratio = float((distance(tensor.grad, exact[leaf]) / unit).max())
                found.append(Worst(ratio, f"{name}, gradient of {leaf}, {case}"))
    within_bounds(found)


def test_the_oracle_s_gradients_are_those_of_the_chain_rule() -> None:
    for case, p, x in settings_of_modules("float64"):
        cotangent = draw_normal(case, "cotangent", case.batch, case.tokens, case.d_out)
        mask = causal_mask(case.tokens)
        oracle = compute_gradients(CONTRACT, case, x, p, mask, Loss(cotangent))
        exact = long_module(x, p, case, mask, cotangent)[2]
        for name, value in oracle.values.items():
            # The oracle's own error must leave a right submission room for another as large.
            allowed = K / 2 * 2.0**-53 * oracle.growth * oracle.scales[name]
            assert bool((distance(value, exact[name]) <= allowed).all()), f"{name}, {case}"


def test_errors_of_thousands_may_turn_a_weight_of_zero_into_a_half() -> None:
    """Two huge keys that differ by one bit of bfloat16 are equal after a rounding on a GPU."""
    scores = torch.tensor([0.0, -2000.0, -2000.0, -9000.0, 5.0], dtype=torch.float64)
    errors = torch.tensor([60.0, 2500.0, 300.0, 2500.0, 0.0], dtype=torch.float64)
    weights = torch.tensor([1.0, 0.0, 0.0, 0.0, 0.0], dtype=torch.float64)  # the last is hidden
    moved = move_weights(weights, scores, errors)
    assert moved[1] > 0.5
    assert moved[2:].tolist() == [0.0, 0.0, 0.0]
    small = torch.tensor([2.0, 0.5], dtype=torch.float64)
    own = torch.tensor([0.7, 0.3], dtype=torch.float64)
    assert torch.equal(move_weights(own, own.log(), small), own * torch.expm1(small))
