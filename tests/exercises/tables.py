"""An answer without attention: hashes of inputs, and the answers that were recorded for them.

Whoever knows the cases can let the solution answer them at home and hand in what it said. `record`
does that for a seed; `answer_from` makes an answer of it. What is not in the table becomes zeros.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from headcheck.exercises import Exercise
from headcheck.grader.grading.attempts import check_all
from headcheck.grader.sandbox.grader_side.subject import make_subject
from headcheck.properties.cases.case_set import PUBLIC_SEED
from headcheck.properties.check import find_first_failure
from headcheck.properties.contracts.contract import Capability, Entry
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Verdict
from tests.submissions import execute

Tensors = tuple[Tensor | None, ...]


@dataclass(eq=False)
class AnswerTable:
    """Answers by the hash of what was asked."""

    known: dict[bytes, Tensors] = field(default_factory=dict)
    recording: bool = True

    def answer(self, key: bytes, compute: Callable[[], Tensors]) -> Tensors:
        """What was recorded; while recording, what is computed now; zeros in its form else."""
        if self.recording:
            self.known[key] = tuple(None if t is None else t.detach().clone() for t in compute())
        elif key not in self.known:
            # The form of an answer is no secret: the statement draws it.
            return tuple(None if t is None else torch.zeros_like(t) for t in compute())
        return tuple(None if t is None else t.clone() for t in self.known[key])


def digest(*tensors: Tensor | None, also: bytes = b"") -> bytes:
    """A few bytes that tell these numbers from others."""
    hasher = hashlib.blake2b(also, digest_size=8)
    for tensor in tensors:
        if tensor is not None:
            hasher.update(f"{tensor.dtype} {tuple(tensor.shape)}".encode())
            hasher.update(tensor.detach().contiguous().view(-1).view(torch.uint8).numpy().data)
    return hasher.digest()


class TableLookup(torch.autograd.Function):
    """An answer out of a table, with gradients out of the same table."""

    @staticmethod
    def forward(ctx: Any, table: AnswerTable, run: Callable[..., Tensors], *given: Tensor) -> Any:
        ctx.table, ctx.run, ctx.key = table, run, digest(*given)
        ctx.save_for_backward(*given)
        found = table.answer(ctx.key, lambda: run(*given))
        return found if len(found) > 1 else found[0]

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> Any:
        given = [tensor.detach() for tensor in ctx.saved_tensors]

        def exact() -> Tensors:
            with torch.enable_grad():
                leaves = [t.clone().requires_grad_(t.is_floating_point()) for t in given]
                wanted = [leaf for leaf in leaves if leaf.requires_grad]
                found = iter(
                    torch.autograd.grad(ctx.run(*leaves), wanted, cotangents, allow_unused=True)
                )
                return tuple(next(found) if leaf.requires_grad else None for leaf in leaves)

        return None, None, *ctx.table.answer(digest(*cotangents, also=ctx.key), exact)


def _look_up(table: AnswerTable, run: Callable[..., Tensors], *given: Tensor) -> Any:
    return TableLookup.apply(table, run, *given)  # type: ignore[no-untyped-call]  # torch's own


@contextmanager
def patch_dropout(table: AnswerTable, key: bytes) -> Iterator[None]:
    """Dropout drops recorded attention weights, whatever weights it is given."""
    real, count = F.dropout, 0

    def drop(x: Tensor, p: float = 0.5, training: bool = True, inplace: bool = False) -> Tensor:
        nonlocal count
        count += 1
        [weights] = table.answer(digest(also=key + bytes([count])), lambda: (x,))
        assert weights is not None
        return real(weights, p, training)

    F.dropout = drop  # type: ignore[assignment]  # the same arguments, of other names
    try:
        yield
    finally:
        F.dropout = real


def make_lookup_class(
    right: type[nn.Module], table: AnswerTable, *, fused: bool
) -> type[nn.Module]:
    """A class of the solution's form whose answers come out of a table.

    Where torch's fused attention must be called, it is, for nothing.
    """

    def forward(self: nn.Module, x: Tensor, *more: Tensor) -> Any:
        if x.is_meta:
            return right.forward(self, x, *more)
        if fused:
            F.scaled_dot_product_attention(x, x, x)
        names, weights = zip(*self.named_parameters(), strict=True)
        inputs = (x, *more)
        if self.training and any(m.p for m in self.modules() if isinstance(m, nn.Dropout)):
            with patch_dropout(table, digest(*inputs, *weights)):
                return right.forward(self, x, *more)

        def run(*given: Tensor) -> Tensors:
            before = self.__class__
            self.__class__ = right
            try:
                parameters = dict(zip(names, given[len(inputs) :], strict=True))
                found = torch.func.functional_call(self, parameters, given[: len(inputs)])
            finally:
                self.__class__ = before
            return found if isinstance(found, tuple) else (found,)

        return _look_up(table, run, *inputs, *weights)

    return type(right.__name__, (right,), {"forward": forward})


def make_answer(exercise: Exercise, table: AnswerTable) -> dict[str, Any]:
    """The names of an answer that gives what the table holds."""
    namespace = execute(exercise.solution)
    name = exercise.contract.name
    right = namespace[name]
    fused = exercise.contract.has(Capability.FUSED)
    if exercise.contract.entry is Entry.FUNCTION:

        def function(*given: Tensor) -> Any:
            def run(*inputs: Tensor) -> Tensors:
                found = right(*inputs)
                return found if isinstance(found, tuple) else (found,)

            return right(*given) if given[0].is_meta else _look_up(table, run, *given)

        namespace[name] = function
    elif exercise.contract.entry is Entry.CLASS:
        namespace[name] = make_lookup_class(right, table, fused=fused)
    else:

        def build(**arguments: Any) -> nn.Module:
            module: nn.Module = right(**arguments)
            module.__class__ = make_lookup_class(type(module), table, fused=fused)
            return module

        namespace[name] = build
    return namespace


def judge_table(exercise: Exercise, table: AnswerTable, seed: int) -> list[Verdict]:
    """The verdicts on the answer, as a run with this seed comes to them."""
    harness = Harness(make_subject(make_answer(exercise, table)), exercise.contract)

    def one(claim: Any, cases: Sequence[Any]) -> Verdict:
        return find_first_failure(claim, harness, cases)

    return check_all(harness, exercise, one, harness.forget, seed)


def record_table(exercise: Exercise, seed: int = PUBLIC_SEED) -> AnswerTable:
    """The table of a seed."""
    table = AnswerTable()
    judge_table(exercise, table, seed)
    table.recording = False
    return table
