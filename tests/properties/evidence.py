"""How near an algorithm comes to its bounds: the ratio of its error to B, largest over elements."""

import itertools
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

import torch
from torch import Tensor

from headcheck.properties.bounds.attention import K
from headcheck.properties.bounds.gradients import compute_gradients
from headcheck.properties.bounds.loss import Loss
from headcheck.properties.bounds.oracle import compute_expected
from headcheck.properties.bounds.precision import PRECISIONS
from headcheck.properties.cases.case_tensors import DTYPES, draw_normal
from headcheck.properties.contracts.contract import Contract
from headcheck.properties.terms.case import Case
from headcheck.reference import Parameters, causal_mask

Algorithm = TypeVar("Algorithm")
Attend = Callable[[Tensor, Parameters], Tensor]
"""a module's output, computed in the dtype of what it is given"""


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
