"""One implementation on one case, as a check function sees it.

A check function takes a `CaseContext` if it compares answers only: outputs and gradients in
evaluation mode. Such checks can be recorded and replayed (`grader/batch`). A check that needs more,
such as training mode, a copy of the module or the side effects of a call, takes a `LiveContext`
(`properties/harness/harness.py`) instead. The annotation of its parameter says which.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from types import EllipsisType
from typing import Any, Self, TypeVar

import torch
from jaxtyping import Bool
from torch import Tensor

from headcheck.properties import comparison
from headcheck.properties.bounds.gradients import ExactGradients, Loss, compute_gradients
from headcheck.properties.bounds.oracle import Expected, compute_expected
from headcheck.properties.bounds.precision import PRECISIONS
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases import case_tensors
from headcheck.properties.cases.fitting_mask import make_fitting_mask
from headcheck.properties.contracts.contract import Capability, Contract, Returns
from headcheck.properties.contracts.variant import find_visible
from headcheck.properties.sized_cache import SizedCache
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Note
from headcheck.reference import Parameters

T = TypeVar("T")
Memo = dict[Callable[[Any], Any], Any]
"""results by the function that computes them"""
_DERIVED = SizedCache[Memo](1 << 24)
"""what follows from a contract and a case, since all submissions are asked the same"""
Mask = Tensor | EllipsisType | None
"""a mask, none, or the case's own (`...`)"""
NamedGradients = dict[str, Tensor | None]
"""gradients by canonical name; None for a tensor without a gradient"""
FLOAT32_NOTE = Note(
    "float32",
    "given float64, some answer is only as exact as float32: does some step, or a tensor that is "
    "kept, have fewer digits?",
)
OUTPUT_NAMES = {
    Returns.OUTPUT: ("output",),
    Returns.OUTPUT_AND_WEIGHTS: ("output", "weights"),
    Returns.OUTPUT_AND_LOGSUMEXP: ("output", "logsumexp"),
    Returns.WEIGHTS_TWICE: ("weights_by_renormalising", "weights_by_masking"),
}


@dataclass(frozen=True, eq=False)
class Query:
    """One call in evaluation mode, or the gradients of sum(output * cotangent)."""

    case: Case
    x: Tensor
    parameters: Parameters
    mask: Tensor | None
    memory: str = "contiguous"
    seed: int | None = None
    """seeds the random number generators before the call"""
    cotangent: Tensor | None = None
    """the cotangent of a gradient; None if the query is for outputs"""
    output: int = 0
    """the number of the output that the cotangent belongs to"""


@dataclass(frozen=True, slots=True)
class Outputs:
    """The answer to a query: every output with a batch axis."""

    tensors: tuple[Tensor, ...]
    dtypes: tuple[str, ...]
    devices: tuple[str, ...]


def _derived(compute: Callable[[Any], T]) -> cached_property[T]:
    """Make a property of what follows from contract and case alone: see `CaseContext.derive`."""
    return cached_property(lambda context: context.derive(compute))


class CaseContext(ABC):
    """What every check can use: tensors of the case, the oracle, queries and assertions.

    Outputs and inputs always have a batch axis, even if the submission has none. Methods raise
    Violation if an answer has the wrong form. There are three ways to run the same check:

    ========  ==================  =========================================  ==================
    way       class               an answer is                              without one, raise
    ========  ==================  =========================================  ==================
    recorded  `RecordingContext`  the equation's; the query is written down  `NotRecordable`
    replayed  `ReplayedContext`   what a submission gave in a batch          `AnswerMissing`
    live      `LiveContext`       what a submission's module gives now       `SubmissionFailed`
    ========  ==================  =========================================  ==================
    """

    def __init__(self, contract: Contract, case: Case) -> None:
        self.contract = contract
        self.case = case
        self._memo: Memo = {}
        self._derived: Memo = _DERIVED.get_or_make(
            (contract, case), dict, lambda _: _count_numbers(contract, case)
        )

    # ------------------------------------------------------------------ the source of answers

    @abstractmethod
    def answer_outputs(self, query: Query) -> Outputs:
        """Return the outputs of one call."""

    @abstractmethod
    def answer_gradients(self, query: Query) -> NamedGradients:
        """Return the gradients of the input and of the parameters for the query's cotangent."""

    @abstractmethod
    def with_case(self, case: Case) -> "CaseContext":
        """Return the context of another case, answered in the same way."""

    @abstractmethod
    def add_note(self, note: Note) -> None:
        """Add a remark on the implementation."""

    # -------------------------------------------------------------------- the case's tensors

    def derive(self, compute: Callable[[Self], T]) -> T:
        """Return what follows from contract and case alone, computed once for all submissions.

        Nobody may modify it.
        """
        if compute not in self._derived:
            self._derived[compute] = compute(self)
        result: T = self._derived[compute]
        return result

    @_derived
    def x(self) -> Tensor:
        return case_tensors.make_tokens(self.case, self.contract)

    @_derived
    def parameters(self) -> Parameters:
        return case_tensors.make_parameters(self.case, self.contract)

    @_derived
    def other_parameters(self) -> Parameters:
        """Parameters of the same shapes with other numbers."""
        other = replace(self.case, seed=self.case.seed + 1)
        return case_tensors.make_parameters(other, self.contract)

    @_derived
    def mask(self) -> Tensor | None:
        return make_fitting_mask(self.contract, self.case)

    @_derived
    def cotangent(self) -> Tensor:
        shape = self.expected.outputs[0].shape
        return case_tensors.round_to_dtype(
            case_tensors.draw_normal(self.case, "cotangent", *shape), self.case
        )

    # ------------------------------------------------------------------------------ the oracle

    @_derived
    def expected(self) -> Expected:
        return self.compute_expected()

    @property
    def tolerance(self) -> Tolerance:
        """The tolerance of the output."""
        return self.expected.tolerances[0]

    @property
    def output_names(self) -> tuple[str, ...]:
        """The names of the outputs in messages."""
        return OUTPUT_NAMES[self.contract.returns]

    def may_attend(
        self, tokens: int, mask: Tensor | None, keys: int | None = None
    ) -> Tensor | None:
        """Return which token may attend to which key; without `keys`, keys are the tokens' own."""
        return find_visible(self.contract, self.case, tokens, mask, keys=keys)

    def list_visible(self) -> Bool[Tensor, "tokens tokens"]:
        """Return which tokens each token attends to without a mask."""
        tokens = self.case.tokens
        visible = self.may_attend(tokens, None)
        return torch.ones(tokens, tokens, dtype=torch.bool) if visible is None else visible

    def compute_expected(
        self, x: Tensor | None = None, parameters: Parameters | None = None, mask: Mask = ...
    ) -> Expected:
        """Return the oracle's answer to the case, or to the case with some inputs replaced."""
        x = self.x if x is None else x
        visible = self.may_attend(x.shape[-2], self.mask if mask is ... else mask)
        return compute_expected(self.contract, self.case, x, parameters or self.parameters, visible)

    def compute_expected_in_half(self) -> Expected:
        """Return the oracle's answer to the case, with the tolerances of float16."""
        visible = self.may_attend(self.case.tokens, self.mask)
        case = replace(self.case, dtype="float16")
        return compute_expected(self.contract, case, self.x, self.parameters, visible)

    def compute_exact_gradients(
        self,
        cotangent: Tensor,
        output: int = 0,
        parameters: Parameters | None = None,
        x: Tensor | None = None,
        mask: Mask = ...,
    ) -> ExactGradients:
        """Return the oracle's gradients of sum(output * cotangent), perhaps with other inputs."""
        x, p = self.x if x is None else x, parameters or self.parameters
        visible = self.may_attend(x.shape[-2], self.mask if mask is ... else mask)
        return compute_gradients(self.contract, self.case, x, p, visible, Loss(cotangent, output))

    # --------------------------------------------------------------------------------- queries

    def call(self) -> Outputs:
        """Call the implementation once on the case's own inputs, in evaluation mode."""
        memory = self.case.memory.value
        return self.answer_outputs(Query(self.case, self.x, self.parameters, self.mask, memory))

    def run(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Mask = ...,
        *,
        memory: str | None = None,
        seed: int | None = None,
    ) -> tuple[Tensor, ...]:
        """Return the outputs of one call in evaluation mode, in float64.

        `memory` is the layout of the input: by default that of the case for the case's own input,
        and contiguous for other inputs.
        """
        x = self.x if x is None else x
        mask = self.mask if isinstance(mask, EllipsisType) else mask
        memory = memory or self.get_memory_layout(x)
        query = Query(self.case, x, parameters or self.parameters, mask, memory, seed)
        return tuple(output.to(torch.float64) for output in self.answer_outputs(query).tensors)

    def run_stacked(self, *inputs: Tensor, parameters: Parameters | None = None) -> list[Tensor]:
        """Return the output for each of several inputs of equal length, in one call if possible.

        Stacking relies on independent sequences in a batch, which a separate property checks.
        """
        if not self.contract.has(Capability.BATCH):
            return [self.run(x, parameters)[0] for x in inputs]
        mask = self.mask
        if mask is not None and mask.dim() == 4 and mask.shape[0] > 1:
            mask = mask.repeat(len(inputs), 1, 1, 1)
        stacked = self.run(torch.cat(inputs), parameters, mask)[0]
        return list(stacked.split([x.shape[0] for x in inputs]))

    def compute_gradients(
        self, cotangent: Tensor, output: int = 0, parameters: Parameters | None = None
    ) -> NamedGradients:
        """Return the implementation's gradients of sum(output * cotangent) at the case's input."""
        given = self.case, self.x, parameters or self.parameters, self.mask
        return self.answer_gradients(Query(*given, cotangent=cotangent, output=output))

    @property
    def answer(self) -> tuple[Tensor, ...]:
        """The outputs for the case itself, computed once."""
        return self.compute_once(CaseContext.run)

    @property
    def output(self) -> Tensor:
        return self.answer[0]

    @property
    def is_answered(self) -> bool:
        """Whether `answer` is known."""
        return CaseContext.run in self._memo

    def compute_once(self, compute: Callable[[Self], T]) -> T:
        """Return the result of a computation on this context, which is done once for all checks."""
        if compute not in self._memo:
            self._memo[compute] = compute(self)
        result: T = self._memo[compute]
        return result

    def get_memory_layout(self, x: Tensor) -> str:
        """Return the case's memory layout for the case's own input; other inputs are contiguous."""
        return self.case.memory.value if x is self.x else "contiguous"

    # ------------------------------------------------------------------------------ assertions

    def assert_close(
        self, got: Tensor, wanted: Tensor, tolerance: Tolerance, what: str = "output"
    ) -> None:
        """Raise Violation unless `got` equals `wanted` within the tolerance."""
        if not comparison.check_close(got, wanted, tolerance, what):
            self.add_note(FLOAT32_NOTE)

    def assert_unchanged(
        self, got: Tensor, before: Tensor, tolerance: Tolerance, what: str = "output"
    ) -> None:
        """Raise Violation unless `got` equals the earlier answer of the same implementation.

        Each of two right answers may be off by the tolerance. Nothing bounds the rounding error of
        a wrong answer, so differences of five hundred roundings of its own size are also allowed,
        and NaN and infinity may recur.
        """
        comparison.assert_shape(got, tuple(before.shape), what)
        if got.dtype == before.dtype and torch.equal(got, before):  # usual, and much faster
            return
        lost = before.isnan() & got.isnan() | (got == before) & got.isinf()
        got, before = got.masked_fill(lost, 0.0), before.masked_fill(lost, 0.0)
        finite = before[before.isfinite()].abs()
        size = float(finite.max()) if finite.numel() else 0.0
        own = 512 * PRECISIONS[self.case.dtype].u * size
        self.assert_close(got, before, tolerance.map(lambda limit: 2 * limit + own), what)

    def assert_answer_unchanged(self, answer: tuple[Tensor, ...], which: str = "") -> None:
        """Raise Violation unless every output equals the implementation's own answer to the case.

        Properties that claim that something does not matter compare with this answer, right or
        wrong. `which` names the call that gave `answer`.
        """
        self.assert_outputs_unchanged(answer, self.answer, self.expected, which)

    def assert_outputs_unchanged(
        self,
        answer: tuple[Tensor, ...],
        before: tuple[Tensor, ...],
        expected: Expected,
        which: str = "",
    ) -> None:
        """Raise Violation unless every output is as before, within `expected`'s tolerances."""
        rows = zip(answer, before, expected.tolerances, self.output_names, strict=True)
        for got, previous, tolerance, name in rows:
            self.assert_unchanged(got, previous, tolerance, f"{name} {which}".rstrip())

    def assert_matches_oracle(
        self, answer: tuple[Tensor, ...], expected: Expected, which: str = ""
    ) -> None:
        """Raise Violation unless every output equals the oracle's.

        `which` names the call that gave `answer`, if it is not the call on the case itself.
        """
        rows = zip(answer, expected.outputs, expected.tolerances, self.output_names, strict=True)
        for got, wanted, tolerance, name in rows:
            self.assert_close(got, wanted, tolerance, f"{name} {which}".rstrip())


def _count_numbers(contract: Contract, case: Case) -> int:
    """Return about how many numbers the tensors of a case have, with all exact results."""
    width = max(case.d_in, case.d_out)
    return case.batch * case.tokens * (8 * width + 8 * case.heads * case.tokens) + 16 * width**2
