"""How near an algorithm comes to its bounds: the ratio of its error to B, largest over elements."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Generic, TypeVar

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
)
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.case import Case, InputContent
from headcheck.reference import Parameters, causal_mask, merge_heads, split_heads

SIZES = (
    Case(batch=1, tokens=1, context_length=1, d_in=1, heads=1, head_dim=2),
    Case(batch=2, tokens=5, context_length=5, d_in=3, heads=2, head_dim=4, bias=True),
    Case(batch=1, tokens=24, context_length=24, d_in=16, heads=4, head_dim=2),
    Case(batch=1, tokens=9, context_length=9, d_in=64, heads=3, head_dim=16, bias=True),
    Case(batch=1, tokens=132, context_length=132, d_in=5, heads=2, head_dim=6),
)
ODD_SIZES = tuple(replace(size, head_dim=size.head_dim + size.tokens % 2) for size in SIZES)
"""the same, some of them with heads of odd width"""

Algorithm = TypeVar("Algorithm")
Attend = Callable[[Tensor, Parameters], Tensor]
"""a module's output, computed in the dtype of what it is given"""
Drawn = tuple[Tensor, Parameters]
Measured = Callable[[Contract, Case, Tensor, Parameters, Attend], float]
"""`measure_output` or `measure_gradients`"""


def measure_output(
    contract: Contract, case: Case, x: Tensor, p: Parameters, attend: Attend
) -> float:
    """Return the largest error over B."""
    expected = compute_expected(contract, case, x, p, causal_mask(case.tokens))
    dtype = DTYPES[case.dtype]
    got = attend(x.to(dtype), p.map(lambda t: t.to(dtype))).double()
    off = (got - expected.outputs[0]).abs().nan_to_num(nan=torch.inf)
    return float((off / expected.tolerances[0].exact).max()) * K


def measure_gradients(
    contract: Contract, case: Case, x: Tensor, p: Parameters, attend: Attend
) -> float:
    """Return the largest error of a gradient over its unit."""
    dtype = DTYPES[case.dtype]
    leaves = {n: t.to(dtype, copy=True).requires_grad_() for n, t in (("x", x), *p.items())}
    own = Parameters(**{n: t for n, t in leaves.items() if n != "x"})
    shape = case.batch, case.tokens, case.d_out
    cotangent = draw_normal(case, "cotangent", *shape).to(dtype)
    attend(leaves["x"], own).backward(cotangent)
    loss = Loss(cotangent.double())
    exact = compute_gradients(contract, case, x, p, causal_mask(case.tokens), loss)
    unit = PRECISIONS[case.dtype].u * exact.growth
    found = []
    for name, leaf in leaves.items():
        assert leaf.grad is not None, f"{name} gets no gradient"
        off = (leaf.grad.double() - exact.values[name]).abs().nan_to_num(nan=torch.inf)
        found.append(float((off / (unit * (exact.scales[name] + 1e-30))).max()))
    return max(found)


def find_worst(
    measure: Callable[[Case, float, Algorithm], float],
    algorithms: Mapping[str, Algorithm],
    cases: Iterable[tuple[Case, float]],
) -> tuple[float, str]:
    """Return the largest ratio of any algorithm on any case, and which it is."""
    return max(
        (measure(case, spread, compute), f"{name}, times {spread:g}, {case}")
        for (case, spread), (name, compute) in itertools.product(cases, algorithms.items())
    )


def widen(t: Tensor) -> torch.dtype:
    """What has to be exact is computed in float32 or better."""
    return torch.promote_types(t.dtype, torch.float32)


def scale(q: Tensor, k: Tensor) -> Tensor:
    scores: Tensor = q @ k.mT / q.shape[-1] ** 0.5
    return scores


def project(x: Tensor, p: Parameters, heads: int) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values of every head."""
    layers = (p.W_q, p.b_q), (p.W_k, p.b_k), (p.W_v, p.b_v)
    q, k, v = (split_heads(F.linear(x, w, b), heads) for w, b in layers)
    return q, k, v


def hide(scores: Tensor) -> Tensor:
    """Scores of which those of the future are hidden."""
    return scores.masked_fill(~causal_mask(scores.shape[-1]), -torch.inf)


def score(q: Tensor, k: Tensor) -> Tensor:
    return hide(scale(q, k))


def finish(context: Tensor, p: Parameters) -> Tensor:
    """The output, from what the heads give."""
    assert p.W_o is not None
    return F.linear(merge_heads(context), p.W_o, p.b_o)


def spreading(contract: Contract, *names: str) -> Callable[[Case, float], Drawn]:
    """Draws tokens and parameters, and spreads these parameters; exact in the case's dtype."""

    def draw(case: Case, spread: float) -> Drawn:
        x, p = make_tokens(case, contract), make_parameters(case, contract)
        drawn = {name: t for name, t in p.items() if name in names}
        wide = {n: (spread * t).to(DTYPES[case.dtype]).double() for n, t in drawn.items()}
        return x, replace(p, **wide)

    return draw


@dataclass(frozen=True)
class Evidence(Generic[Algorithm]):
    """Algorithms for one part of attention, and the cases on which they are measured."""

    contract: Contract
    right: Mapping[str, Algorithm]
    wrong: Mapping[str, Algorithm]
    draw: Callable[[Case, float], Drawn]
    """tokens and parameters that are exact in the case's dtype, with the spread applied"""
    attend: Callable[..., Tensor]
    """the output, of tokens, parameters, a case and an algorithm"""
    spreads: tuple[float, ...]
    """how far the values of the part are from those that a case draws; the first is the usual"""
    at_once: int = 4
    """how many spreads a case has; they follow each other from case to case"""
    sizes: tuple[Case, ...] = SIZES
    sharpness: tuple[int, ...] = (1, 8)
    contents: tuple[InputContent, ...] = (InputContent.NORMAL, InputContent.OUTLIER)
    least: float = 1e6
    """the ratio that wrong algorithms exceed"""
    share: float = 1.0
    """the share of usual cases on which each of them does"""

    def list_cases(self, dtype: str) -> list[tuple[Case, float]]:
        """Return sizes, scores and contents, each with some spreads."""
        drawn = itertools.product(self.sizes, self.sharpness, self.contents)
        spreads = itertools.cycle(self.spreads)
        cases = (
            self.contract.fit(replace(size, sharpness=s, content=c, dtype=dtype, seed=3))
            for size, s, c in drawn
        )
        taken = min(self.at_once, len(self.spreads))
        return [(case, next(spreads)) for case in cases for _ in range(taken)]

    def measure_output(self, case: Case, spread: float, compute: Algorithm) -> float:
        """Return the largest error of the output over B."""
        own = partial(self.attend, case=case, compute=compute)
        return measure_output(self.contract, case, *self.draw(case, spread), own)

    def measure_gradients(self, case: Case, spread: float, compute: Algorithm) -> float:
        """Return the largest error of a gradient over its unit."""
        own = partial(self.attend, case=case, compute=compute)
        return measure_gradients(self.contract, case, *self.draw(case, spread), own)
