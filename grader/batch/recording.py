"""Record the queries of checks with the exact answers, before any submission is seen.

Theory
------
A property such as "changing a later token leaves every earlier output unchanged" is a theorem about
the equation. Its check makes a few queries (the output for these tokens under those parameters) and
compares the answers with each other, within twice the tolerance of an exact answer. So

    if every answer is the exact one to within its tolerance, the property holds,

and the property need not be checked. Each check is therefore run once on the equation itself, which
records its queries with the exact answers. The queries of all properties about one object can then
be sent to a submission in one message, and the answers compared in one step. Only a property with
an inexact answer is checked live, one query at a time. So it is always the check, and never this
module, that finds a failure and writes the message to the student. "Within its tolerance" is
decided by the part of the tolerance that costs little (`Tolerance.least`); an answer beyond it is
looked at again with the whole tolerance.

Properties that do not follow from exact answers cannot be recorded, and are always checked live:
those about training mode, registered parameters, or side effects of a call. Such a check is
recognised by its parameter, a `LiveContext`. A recordable check may still make a query that is not
worth recording (`RecordingContext.require_recordable`); the property is then checked live on this
exercise.

Queries about the same object, parameters and length are stacked on one batch axis. This relies on
the independence of a batch's sequences. So the queries that test this independence (those of the
properties about the batch, and the unmodified cases) are never stacked, and if any of their answers
is inexact, no stacked answer is trusted. If a query is made twice, both answers must be identical
to the last bit. `tests/grader/batch/test_recording.py` checks the implication above with answers
pushed to the edge of their tolerances.
"""

import functools
import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Self, TypeVar

from torch import Tensor

from headcheck.grader import fault
from headcheck.properties.bounds.oracle import hash_parameters, hash_tensors
from headcheck.properties.bounds.tolerance import Tolerance
from headcheck.properties.cases.case_tensors import DTYPES
from headcheck.properties.contracts.contract import Capability, Contract, Entry
from headcheck.properties.harness.case_context import CaseContext, NamedGradients, Outputs, Query
from headcheck.properties.property import Property, PropertyGroup
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Note
from headcheck.reference import Parameters

T = TypeVar("T")
MAX_SCORES, MAX_WEIGHTS = 1 << 21, 1 << 18
"""Queries with more scores or larger weights than this are not recorded."""
EXACT_DTYPES = ("float64", "float32")
"""The dtypes whose answers must be exact; in coarser ones they must only be finite."""
QueryId = tuple[bytes, int | None]
"""a hash of everything that decides the answer, and the seed of a repeated query"""


class NotRecordable(Exception):
    """A check makes a query on this case that is not worth recording."""


@dataclass(frozen=True, eq=False, kw_only=True)
class RecordedQuery(Query):
    """A query with its exact answer."""

    id: QueryId
    needs_own_batch: bool
    """whether the query needs a batch of its own"""
    exact: tuple[Tensor, ...]
    """the answer, tensor by tensor, in the form in which a submission returns it"""
    allowed: tuple[Tensor, ...]
    """the errors within which the answer is exact without doubt; see `Tolerance.least`"""


@dataclass(frozen=True, eq=False)
class Recording:
    """The queries of a set of properties, and the numbers of each property's queries."""

    queries: tuple[RecordedQuery, ...]
    query_numbers: Mapping[Property, frozenset[int]]
    """the queries of each property that could be recorded, by number"""


def record_queries(contract: Contract, plan: Mapping[Property, Sequence[Case]]) -> Recording:
    """Run every recordable check on all of its cases, answered by the equation.

    If a check crashes or fails on the equation itself, this is a fault in headcheck, and the check
    is not recorded.
    """
    recorder = Recorder(contract)
    recorded = {
        prop: fault.contain(functools.partial(recorder.record_property, prop, cases), None)
        for prop, cases in plan.items()
    }
    queries: dict[QueryId, RecordedQuery] = {}
    for query in (q for those in recorded.values() if those for q in those.values()):
        if query.id not in queries or query.needs_own_batch:  # once unstacked, always unstacked
            queries[query.id] = query
    numbers = {query_id: number for number, query_id in enumerate(queries)}
    return Recording(
        tuple(queries.values()),
        {
            prop: frozenset(map(numbers.__getitem__, those))
            for prop, those in recorded.items()
            if those is not None
        },
    )


class Recorder:
    """Runs checks on the equation, one after the other."""

    def __init__(self, contract: Contract) -> None:
        self.contract = contract
        self.needs_own_batch = False
        self.queries: dict[QueryId, RecordedQuery] = {}
        self._contexts: dict[Case, RecordingContext] = {}

    def record_property(
        self, prop: Property, cases: Sequence[Case]
    ) -> dict[QueryId, RecordedQuery] | None:
        """Return the queries of a check on all cases; None if it cannot be recorded.

        Raises whatever the check raises, such as Violation if the equation violates it.
        """
        if prop.recordable_check is None:
            return None
        self.needs_own_batch = prop.group is PropertyGroup.BATCH
        self.queries = {}
        try:
            for case in cases:
                prop.recordable_check(self.get_context(case))
        except NotRecordable:
            return None
        return self.queries

    def get_context(self, case: Case) -> "RecordingContext":
        """Return the context of this case: always the same one, so that tensors are shared."""
        if case not in self._contexts:
            self._contexts[case] = self.create_context(case)
        return self._contexts[case]

    def create_context(self, case: Case) -> "RecordingContext":
        return RecordingContext(self, case)


class RecordingContext(CaseContext):
    """A case answered by the equation, which records the queries."""

    def __init__(self, recorder: Recorder, case: Case) -> None:
        super().__init__(recorder.contract, case)
        self.recorder = recorder
        self._once: dict[object, tuple[Any, Mapping[QueryId, RecordedQuery]]] = {}

    def answer_outputs(self, query: Query) -> Outputs:
        self.require_recordable(query)
        expected = self.compute_expected(query.x, query.parameters, query.mask)
        self._record(
            query,
            self.recorder.needs_own_batch or query.x is self.x,
            tuple(map(self._drop_batch_axis, expected.outputs)),
            tuple(self._drop_batch_axis(select_allowed(limit)) for limit in expected.tolerances),
        )
        outputs = tuple(map(self.round_answer, expected.outputs, expected.tolerances))
        return predict_outputs(self.case, outputs)

    def answer_gradients(self, query: Query) -> NamedGradients:
        self.require_recordable(query)
        assert query.cotangent is not None, "a query for gradients has a cotangent"
        found = self.compute_exact_gradients(
            query.cotangent, query.output, query.parameters, query.x, query.mask
        )
        limits = {name: found.compute_tolerance(name) for name in found.values}
        allowed = {name: select_allowed(limit) for name, limit in limits.items()}
        self._record(query, True, self._to_stored(found.values), self._to_stored(allowed))
        return {name: self.round_answer(t, limits[name]) for name, t in found.values.items()}

    def with_case(self, case: Case) -> "RecordingContext":
        return self.recorder.get_context(case)

    def add_note(self, note: Note) -> None:
        """Drop the note, since it is about the equation and not about a submission."""

    def compute_once(self, compute: Callable[[Self], T]) -> T:
        """Compute the value once, and record its queries for every check that uses it."""
        recorder, key = self.recorder, (compute, self.recorder.needs_own_batch)
        if key not in self._once:
            before, recorder.queries = recorder.queries, {}
            try:
                self._once[key] = compute(self), recorder.queries
            finally:
                recorder.queries = {**before, **recorder.queries}
        value, queries = self._once[key]
        recorder.queries |= queries
        result: T = value
        return result

    def require_recordable(self, query: Query) -> None:
        """Raise NotRecordable unless the answer can be known exactly and laid out in a batch."""
        scores = query.x.shape[0] * self.case.heads * query.x.shape[1] ** 2
        weights = max(self.case.d_in, self.case.d_out) * self.case.d_out
        is_large = scores > MAX_SCORES or weights > MAX_WEIGHTS
        if query.cotangent is None:
            unknown = self.case.dtype not in EXACT_DTYPES
        else:
            # No gradient arrives at what a second output does not depend on.
            unknown = self.contract.entry is Entry.FUNCTION or bool(query.output)
        if is_large or unknown:
            raise NotRecordable

    def round_answer(self, exact: Tensor, tolerance: Tolerance) -> Tensor:
        """Return an exact answer as a submission would: rounded to the dtype of the case."""
        return exact.to(DTYPES[self.case.dtype])

    def _record(
        self,
        query: Query,
        needs_own_batch: bool,
        exact: tuple[Tensor, ...],
        allowed: tuple[Tensor, ...],
    ) -> None:
        query_id = compute_query_id(query)
        self.recorder.queries[query_id] = RecordedQuery(
            **vars(query),
            id=query_id,
            needs_own_batch=needs_own_batch,
            exact=exact,
            allowed=allowed,
        )

    def _to_stored(self, named: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """Return gradients in the form of a submission's parameters, the input's first."""
        parameters = Parameters(**{name: named[name] for name, _ in self.parameters.items()})
        stored = (tensor for _, tensor in self.contract.callee.to_stored(parameters, self.case))
        return self._drop_batch_axis(named["x"]), *stored

    def _drop_batch_axis(self, tensor: Tensor) -> Tensor:
        """Return an output as the submission returns it, perhaps without a batch axis."""
        return tensor if self.contract.has(Capability.BATCH) else tensor[0]


def select_allowed(tolerance: Tolerance) -> Tensor:
    """Return the errors within which an answer is exact without doubt."""
    return tolerance.least


def predict_outputs(case: Case, outputs: tuple[Tensor, ...]) -> Outputs:
    """Return outputs in the dtype and on the device of the case, like the exact ones."""
    return Outputs(outputs, (case.dtype,) * len(outputs), (case.device,) * len(outputs))


def compute_query_id(query: Query) -> QueryId:
    """Return the key that identifies a query."""
    case = query.case
    own = case.group, case.window, case.softcap, case.causal
    sizes = repr((case.heads, case.head_dim, *own, case.dtype))
    numbers = hash_tensors(query.x, query.mask), hash_parameters(query.parameters)
    content = _hash_parts(sizes, *numbers)
    if query.cotangent is not None:
        asked = repr((query.case, query.output))
        return _hash_parts(content, asked, hash_tensors(query.cotangent)), None
    return _hash_parts(content, repr((query.case, query.memory))), query.seed


def _hash_parts(*parts: str | bytes) -> bytes:
    encoded = (part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.blake2b(b"|".join(encoded), digest_size=16).digest()
