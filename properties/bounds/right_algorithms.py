"""Attention by right algorithms that round in different places, for errors in 16 bits.

    plain           as torch computes the equation: sums are rounded once, at their end
    log-sum-exp     as plain, but weights are exp(s - lse)
    term by term    as log-sum-exp, but sums are rounded after every term
    query by query  as plain, but gradients add up over the queries, rounded after each

Every right answer of the banks makes some of these choices at each of its steps. So its error is
like the largest of the four: see "Errors in 16 bits" in docs/mathematics.md.
"""

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

Leaves = Mapping[str, Tensor]
Compute = Callable[[Leaves], Tensor]
"""the equation: from tensors by name to the output, of shape (batch, queries, width)"""


class ByLogSumExp(TorchFunctionMode):
    """Within it, a softmax is exp(s - lse): the errors of a row, which share lse, do not cancel."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        if func is torch.softmax:
            return torch.exp(args[0] - args[0].logsumexp(-1, keepdim=True))
        return func(*args, **(kwargs or {}))


class _TermByTerm(TorchFunctionMode):
    """Within it, the sums of a product of matrices are rounded after every term."""

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Any = None
    ) -> Any:
        return (_multiply if func is Tensor.matmul else func)(*args, **(kwargs or {}))


def _multiply(left: Tensor, right: Tensor) -> Tensor:
    """Return the product of two matrices, adding one outer product after another."""
    total, *rest = (left[..., n, None] * right[..., n, None, :] for n in range(left.shape[-1]))
    for each in rest:
        total = total + each
    return total


def compute_outputs(compute: Compute, leaves: Leaves) -> list[Tensor]:
    """Return the output by each algorithm; that which differs in gradients alone is left out."""
    found = [compute(leaves)]
    with ByLogSumExp():
        found.append(compute(leaves))
        with _TermByTerm():
            return [*found, compute(leaves)]


def compute_gradients(
    compute: Compute, leaves: Leaves, cotangent: Tensor
) -> list[dict[str, Tensor]]:
    """Return the gradients of sum(output * cotangent) for all leaves, by each algorithm."""
    moved = {name: leaf.detach().requires_grad_() for name, leaf in leaves.items()}
    with torch.enable_grad():
        outputs = compute_outputs(compute, moved)
    whole = cotangent.to(outputs[0].dtype)
    found = [_differentiate(output, moved, [whole]) for output in outputs]
    return [*found, _differentiate(outputs[0], moved, _iter_queries(whole))]


def _iter_queries(cotangent: Tensor) -> Iterator[Tensor]:
    """Yield the cotangent of each query alone, with zeros for all others."""
    for query in range(cotangent.shape[1]):
        only = torch.zeros_like(cotangent)
        only[:, query] = cotangent[:, query]
        yield only


def _differentiate(output: Tensor, leaves: Leaves, cotangents: Any) -> dict[str, Tensor]:
    """Return the sum of the gradients for some cotangents, rounded after each."""
    totals = [torch.zeros_like(leaf) for leaf in leaves.values()]
    for each in cotangents:
        # The gradient of a sum: torch imports sympy, half a second, to check a cotangent's shape.
        parts = torch.autograd.grad(
            (output * each).sum(), list(leaves.values()), retain_graph=True, materialize_grads=True
        )
        totals = [total + part for total, part in zip(totals, parts, strict=True)]
    return dict(zip(leaves, totals, strict=True))
