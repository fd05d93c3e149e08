"""What will be asked, and what must come back, are known before a submission is seen.

Theory
------
A claim such as "changing a later token leaves every earlier output unchanged" is a theorem about
the equation. Its judge asks a few questions (the output for these tokens under those parameters)
and compares the answers with each other, within twice the bound that an exact answer keeps. So

    if every answer is the exact one to within its bound, the claim holds,

and there is no need to judge it. A rehearsal therefore lets every judge ask its questions of the
equation itself, once, and writes them down with the exact answers. The questions of all claims
about one construction can then be put to a submission together, and the answers compared at once.
Only a claim that got an inexact answer is judged, by asking again, one question at a time: what a
submission does wrong is found, worded and shown to the student by the claim, never from here.

What does not follow from exact answers cannot be rehearsed, and is always judged: training mode,
gradients, what a constructor registers, what a call leaves behind. A judge of such a claim reaches
for something that a rehearsal does not have, and that is how it is known.

Questions about the same construction, parameters and length are put on one batch axis. That rests
on the independence of a batch's sequences, so what shows this (the claims about the batch, and the
answers to the cases as they are) is never stacked, and if any of it is inexact nothing is believed
that was. A question that is asked twice must be answered twice, with the same bits.
`tests/grader/batch/test_recording.py` checks the implication above with answers pushed to the edge
of their bounds.
"""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from types import EllipsisType
from typing import TypeVar

from torch import Tensor

from properties.case import Case
from properties.cases.case_tensors import DTYPES
from properties.contract import Capability, Contract, Entry
from properties.harness.harness import CaseContext, Harness
from properties.harness.module_adapter import ModuleAdapter
from properties.oracle import Expected, hash_tensors
from properties.property import Property, PropertyGroup
from properties.subject import CallOptions, CallResult, Module, Value
from properties.tolerance import Tolerance
from reference import Parameters

T = TypeVar("T")
MAX_QUERY_SIZE = 1 << 18
"""Questions with more scores or larger weights than this are not worth laying out beforehand."""
EXACT_DTYPES = ("float64", "float32")
"""Of coarser dtypes only finite numbers are demanded."""
QueryId = tuple[bytes, int | None]
"""What tells questions apart: their content, and the seed of one that is asked again."""


class NotRecordable(Exception):
    """A judge reached for what only a submission has."""


@dataclass(frozen=True, eq=False)
class Query:
    """What the output for these tokens under those parameters is, or its gradients; the answer."""

    case: Case
    x: Tensor
    parameters: Parameters
    mask: Tensor | None
    memory: str
    needs_own_batch: bool
    """whether it may share its batch with no other question"""
    cotangent: Tensor | None
    """whose gradients are asked for; None if the output is"""
    exact: tuple[Tensor, ...]
    """the answer, tensor by tensor, as a submission gives it"""
    tolerances: tuple[Tolerance, ...]
    key: QueryId

    @property
    def content(self) -> bytes:
        """What must have the same answer whenever it is asked."""
        return self.key[0]


QueriesById = dict[QueryId, Query]


@dataclass(frozen=True, eq=False)
class Recording:
    """What a set of claims asks: all questions, and by number those of each claim."""

    queries: tuple[Query, ...]
    query_numbers: Mapping[Property, frozenset[int]]
    """claims that cannot be rehearsed are not there"""


def record_queries(contract: Contract, plan: Mapping[Property, Sequence[Case]]) -> Recording:
    """Let every judge ask the equation on all of its cases.

    Raises Violation where the equation itself does not keep a claim: a fault of ours.
    """
    recorder = Recorder(contract)
    asked = {prop: recorder.record_property(prop, cases) for prop, cases in plan.items()}
    queries: QueriesById = {}
    for key, query in (each for those in asked.values() if those for each in those.items()):
        if key not in queries or query.needs_own_batch:  # once alone, always alone
            queries[key] = query
    numbers = {key: number for number, key in enumerate(queries)}
    return Recording(
        tuple(queries.values()),
        {
            c: frozenset(numbers[k] for k in those)
            for c, those in asked.items()
            if those is not None
        },
    )


class Recorder(Harness):
    """Where claims are rehearsed, one after the other."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(NoSubject(), contract)
        self.expected_by_content: dict[bytes, Expected] = {}
        self.needs_own_batch = False
        self.queries: QueriesById = {}

    def record_property(self, prop: Property, cases: Sequence[Case]) -> "QueriesById | None":
        """What its judge asks on all cases; None if it cannot be rehearsed."""
        self.needs_own_batch = prop.group is PropertyGroup.BATCH
        self.queries = {}
        try:
            for case in cases:
                prop.check(self.get_context(case))
        except NotRecordable:
            return None
        return self.queries

    @cached_property
    def contract(self) -> Contract:
        return self.requested_contract

    def create_context(self, case: Case) -> CaseContext:
        return RecordingContext(self, self.contract, case)


class PredictedContext(CaseContext, ABC):
    """A trial without a submission: what it may be asked has an answer that is known."""

    @property
    def adapter(self) -> ModuleAdapter:
        raise NotRecordable

    def call_module(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
        options: CallOptions | None = None,
        adapter: ModuleAdapter | None = None,
    ) -> "PredictedResult":
        x = self.x if x is None else x
        options = options or CallOptions(memory=self.get_memory_layout(x))
        strange = (
            adapter is not None or options.training or options.watched or options.grad != "no_grad"
        )
        if strange or self._is_large(x) or self.case.dtype not in EXACT_DTYPES:
            raise NotRecordable
        mask = self.mask if isinstance(mask, EllipsisType) else mask
        content = _hash_parts(
            self._hash_content(x, parameters, mask), repr((self.case, options.memory))
        )
        outputs = self.answer_query(
            (content, options.seed), x, parameters or self.parameters, mask, options
        )
        dtypes, devices = (self.case.dtype,) * len(outputs), (self.case.device,) * len(outputs)
        return PredictedResult(outputs, "foretold", dtypes, devices)

    @abstractmethod
    def answer_query(
        self,
        key: QueryId,
        x: Tensor,
        parameters: Parameters,
        mask: Tensor | None,
        options: CallOptions,
    ) -> tuple[Tensor, ...]:
        """The outputs, with a batch axis, in the dtype of the case. May raise Unforeseen."""

    def _make_gradient_id(self, cotangent: Tensor) -> QueryId:
        content = self._hash_content(None, None, ...)
        return _hash_parts(content, repr(self.case), hash_tensors(cotangent)), None

    def _is_large(self, x: Tensor) -> bool:
        scores = x.shape[0] * self.case.heads * x.shape[1] ** 2
        return max(scores, self.case.d_in * self.case.d_out) > MAX_QUERY_SIZE

    def _hash_content(
        self, x: Tensor | None, parameters: Parameters | None, mask: Tensor | EllipsisType | None
    ) -> bytes:
        """What an exact answer depends on."""
        names, tensors = zip(*(parameters or self.parameters).items(), strict=True)
        mask = self.mask if isinstance(mask, EllipsisType) else mask
        sizes = repr((self.case.heads, self.case.head_dim, self.case.dtype, names))
        return _hash_parts(sizes, hash_tensors(self.x if x is None else x, mask, *tensors))


class RecordingContext(PredictedContext):
    """A trial of the equation itself, which writes down what it is asked.

    Answers are not kept: every claim asks for itself.
    """

    harness: Recorder

    @property
    def answer(self) -> tuple[Tensor, ...]:
        return self.run()

    def compute_once(self, compute: Callable[[CaseContext], T]) -> T:
        return compute(self)

    def answer_query(
        self,
        key: QueryId,
        x: Tensor,
        parameters: Parameters,
        mask: Tensor | None,
        options: CallOptions,
    ) -> tuple[Tensor, ...]:
        expected = self.compute_expected(x, parameters, mask)
        self.harness.queries[key] = Query(
            self.case,
            x,
            parameters,
            mask,
            options.memory,
            self.harness.needs_own_batch or x is self.x,
            None,
            tuple(self._drop_batch_axis(output) for output in expected.outputs),
            tuple(
                Tolerance(self._drop_batch_axis(limit.exact), self._drop_batch_axis(limit.float32))
                for limit in expected.tolerances
            ),
            key,
        )
        return tuple(map(self.round_answer, expected.outputs, expected.tolerances))

    def compute_gradients(self, cotangent: Tensor) -> dict[str, Tensor | None]:
        if self.contract.entry is Entry.FUNCTION or self._is_large(self.x):
            raise NotRecordable
        found = self.compute_exact_gradients(cotangent)
        limits = {name: found.compute_tolerance(name) for name in found.values}
        exact, narrow, wide = (
            self._to_stored(named)
            for named in (
                found.values,
                {name: limit.exact for name, limit in limits.items()},
                {name: limit.float32 for name, limit in limits.items()},
            )
        )
        key = self._make_gradient_id(cotangent)
        self.harness.queries[key] = Query(
            self.case,
            self.x,
            self.parameters,
            self.mask,
            "contiguous",
            True,
            cotangent,
            exact,
            tuple(map(Tolerance, narrow, wide)),
            key,
        )
        return {name: self.round_answer(t, limits[name]) for name, t in found.values.items()}

    def round_answer(self, exact: Tensor, allowed: Tolerance) -> Tensor:
        """An exact answer as it is given: rounded to the dtype of the case."""
        return exact.to(DTYPES[self.case.dtype])

    def _to_stored(self, named: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """A gradient's parts as a submission keeps what they belong to, the input's first."""
        asked = self.contract.callee
        parameters = Parameters(**{name: named[name] for name, _ in self.parameters.items()})
        stored = (tensor for _, tensor in asked.to_stored(parameters, self.case))
        return self._drop_batch_axis(named["x"]), *stored

    def _drop_batch_axis(self, tensor: Tensor) -> Tensor:
        """As the submission gives it, if it knows no batch."""
        return tensor if self.contract.has(Capability.BATCH) else tensor[0]

    def compute_expected(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
    ) -> Expected:
        content = self._hash_content(x, parameters, mask)
        if content not in self.harness.expected_by_content:
            self.harness.expected_by_content[content] = super().compute_expected(
                x, parameters, mask
            )
        return self.harness.expected_by_content[content]


@dataclass(frozen=True)
class PredictedResult(CallResult):
    """What comes back where no submission is asked: outputs, and nothing seen besides."""

    def __getattribute__(self, name: str) -> object:
        if name in UNPREDICTED_FIELDS:
            raise NotRecordable
        return super().__getattribute__(name)


UNPREDICTED_FIELDS = {field.name for field in fields(CallResult)} - {
    "outputs",
    "dtypes",
    "devices",
    "form",
}


def _hash_parts(*parts: str | bytes) -> bytes:
    told = (part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.blake2b(b"|".join(told), digest_size=16).digest()


class NoSubject:
    """The subject of a rehearsal: there is none."""

    def construct(
        self,
        name: str,
        arguments: Mapping[str, Value],
        seed: int | None,
        dtype: str | None = None,
        device: str | None = None,
    ) -> Module:
        raise NotRecordable

    def get_function(self, name: str) -> Module:
        raise NotRecordable

    def call(self, name: str, modules: Sequence[Module]) -> None:
        raise NotRecordable
