"""Lay out the queries of a recording as a few long messages: the batch plan of an exercise.

To find the requests about an object, a `ModuleAdapter` makes one query after another, and its
requests are recorded instead of sent. Stacked queries share a request: they are concatenated along
the batch axis.
"""

import functools
import itertools
import threading
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from headcheck.exercises import Exercise
from headcheck.grader.batch import disk_cache
from headcheck.grader.batch.message import (
    PLACEHOLDER_NAME,
    BatchPlan,
    BatchRequest,
    ObjectBatch,
    QueryKey,
)
from headcheck.grader.batch.recording import RecordedQuery, record_queries
from headcheck.grader.batch.transcript import write_transcripts
from headcheck.grader.grouped import group_by
from headcheck.grader.sandbox.grader_side.subject import ChannelModule, ChannelSubject
from headcheck.grader.sandbox.operations import (
    COMPUTE_VJP,
    CONSTRUCT,
    EVALUATE,
    GET_FUNCTION,
    NamedTensors,
)
from headcheck.grader.sandbox.wire import MAX_TENSORS, Message, PackedTensors, label_by_position
from headcheck.properties.bounds.oracle import hash_parameters, hash_tensors
from headcheck.properties.contracts.contract import Capability, Contract
from headcheck.properties.contracts.parameter_mapping import ParameterMapping
from headcheck.properties.harness.module_adapter import ModuleAdapter, construct
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case

MAX_MESSAGE_NUMEL = 1 << 18
"""the most numbers in one message; a module of the size of GPT-2 gets a separate message"""
LONGEST_IN_ORDER = 512
"""objects with longer inputs go into the final message"""
MAX_MESSAGE_CALLS = 32
"""the most calls in one message, so that a slow answer has time for the first messages"""
MAX_MESSAGE_TENSORS = MAX_TENSORS // 2
"""the most tensors in one message: a module with a list of heads has several for each head"""
ANSWERING = (EVALUATE.name, COMPUTE_VJP.name)
"""the requests whose replies are answers; the others prepare an object"""


def get_batch_plan(
    exercise: Exercise, mappings: tuple[ParameterMapping, ...], seed: int, device: str
) -> BatchPlan:
    """Return the batch plan of an exercise, for definitions with these parameter mappings.

    Threads and processes that need the same plan at the same time share it.
    """
    with _get_lock(exercise, mappings, seed, device):
        return _load_batch_plan(exercise, mappings, seed, device)


@functools.lru_cache(maxsize=64)
def _get_lock(*key: object) -> threading.Lock:
    return threading.Lock()


@functools.lru_cache(maxsize=64)
def _load_batch_plan(
    exercise: Exercise, mappings: tuple[ParameterMapping, ...], seed: int, device: str
) -> BatchPlan:
    def compile_plan() -> BatchPlan:
        contract = replace(exercise.contract, name=PLACEHOLDER_NAME, mappings=mappings)
        cases = exercise.plan_cases(seed, device)
        plan = compile_batch_plan(contract, cases)
        live = {p: each for p, each in cases.items() if p not in plan.queries_by_property}
        written = write_transcripts(exercise, contract, live)
        return replace(plan, transcripts=written, cases=cases)

    # Slugs alone are not unique: two folders may have the same name, and contracts change.
    own = exercise.slug, exercise.source, exercise.solution if exercise.has_solution else None
    key = disk_cache.compute_key(*own, exercise.depth, mappings, seed, device)
    plan = disk_cache.load_or_make(key, exercise.properties, compile_plan)
    exercise.planned.setdefault((seed, device), plan.cases)  # need not be selected again
    return plan


def compile_batch_plan(contract: Contract, cases: Mapping[Property, Sequence[Case]]) -> BatchPlan:
    """Record the queries of all properties, and lay them out object by object."""
    recording = record_queries(contract, cases)
    numbered = list(enumerate(recording.queries))
    parts = [
        _plan_object(contract, queries)
        for queries in _group_queries(numbered, functools.partial(_compute_object_key, contract))
    ]
    keys = tuple(
        QueryKey(q.id, tuple(tuple(t.shape) for t in q.exact), q.needs_own_batch)
        for q in recording.queries
    )
    # The largest last: if one takes too long, the others are answered.
    parts.sort(key=lambda part: part.size > MAX_MESSAGE_NUMEL or part.longest > LONGEST_IN_ORDER)
    batches = tuple(map(_build_batch, _group_into_messages(parts)))
    return BatchPlan(batches, keys, recording.query_numbers)


NumberedQuery = tuple[int, RecordedQuery]


def _group_queries(
    numbered: Sequence[NumberedQuery], get_key: Callable[[RecordedQuery], Hashable]
) -> Iterable[list[NumberedQuery]]:
    return group_by(numbered, lambda each: get_key(each[1])).values()


def _compute_object_key(contract: Contract, query: RecordedQuery) -> tuple[object, ...]:
    """Return the key that identifies the object a query is about."""
    case = query.case
    arguments = repr(contract.build_arguments(case))
    sizes = case.d_in, case.heads, case.head_dim, contract.has_biases(case)
    return arguments, *sizes, case.dtype, case.device


def _compute_stack_key(query: RecordedQuery) -> Hashable:
    """Return a key; queries with equal keys share a batch."""
    mask = query.mask
    own = mask is not None and mask.dim() == 4 and mask.shape[0] > 1
    if query.needs_own_batch or own or query.memory != "contiguous":
        return query
    mask_key = None if mask is None else (str(mask.dtype), hash_tensors(mask))
    return tuple(query.x.shape[1:]), mask_key


@dataclass(frozen=True, eq=False)
class _ObjectPlan:
    """The part of a message that is about one object."""

    object_batch: ObjectBatch
    tensors: list[Tensor]
    dtype: str
    device: str
    expected: list["ExpectedOutput"]
    repeated_queries: list[tuple[int, int]]
    longest: int
    """the number of tokens of the object's longest input"""

    @property
    def size(self) -> int:
        """How many numbers this part adds to a message and its reply."""
        return self.object_batch.numel + sum(tensor.numel() for tensor in self.tensors)

    @property
    def calls(self) -> int:
        """How many calls this part makes."""
        return sum(each["op"] in ANSWERING for each in self.object_batch.requests)


def _plan_object(contract: Contract, queries: list[NumberedQuery]) -> _ObjectPlan:
    recorder = RecordingChannel()
    case = queries[0][1].case
    adapter = construct(ChannelSubject(recorder), contract, case, seed=case.seed)
    calls: list[list[NumberedQuery]] = []
    can_stack = contract.has(Capability.BATCH)
    for alike in _group_queries(queries, lambda q: hash_parameters(q.parameters)):
        adapter.set(alike[0][1].parameters)
        stacked = _group_queries(alike, _compute_stack_key) if can_stack else [[q] for q in alike]
        for call in stacked:
            recorder.record_call(adapter, [query for _, query in call])
            calls.append(call)
    blocks = [list(_iter_expected(call)) for call in calls]
    shapes = iter([_compute_stacked_shapes(each) for each in blocks])
    return _ObjectPlan(
        ObjectBatch(
            recorder.requests,
            tuple(next(shapes) if each["op"] in ANSWERING else () for each in recorder.requests),
        ),
        recorder.tensors,
        case.dtype,
        case.device.split(":")[0],
        [answer for each in blocks for block in each for answer in block],
        list(_find_repeated_queries([one for call in calls for one in call])),
        max(query.x.shape[1] for _, query in queries),
    )


def _group_into_messages(parts: list[_ObjectPlan]) -> Iterator[list[_ObjectPlan]]:
    """Yield the parts of each message: as many as fit into it, all of one dtype."""
    waiting: list[_ObjectPlan] = []
    for part in parts:
        size = sum(other.size for other in (*waiting, part))
        count = sum(len(other.tensors) for other in (*waiting, part))
        calls = sum(other.calls for other in (*waiting, part))
        is_full = size > MAX_MESSAGE_NUMEL or count > MAX_MESSAGE_TENSORS
        is_full |= calls > MAX_MESSAGE_CALLS
        is_full |= part.longest > LONGEST_IN_ORDER
        if waiting and (part.dtype != waiting[0].dtype or is_full):
            yield waiting
            waiting = []
        waiting.append(part)
    if waiting:
        yield waiting


def _build_batch(parts: list[_ObjectPlan]) -> BatchRequest:
    answers = [answer for part in parts for answer in part.expected]
    return BatchRequest(
        tuple(part.object_batch for part in parts),
        PackedTensors(label_by_position(tensor for part in parts for tensor in part.tensors)),
        parts[0].dtype,
        parts[0].device,
        torch.cat([answer.exact.flatten() for answer in answers]),
        torch.cat([answer.allowed.flatten() for answer in answers]),
        torch.cat([torch.full((answer.exact.numel(),), answer.number) for answer in answers]),
        tuple(pair for part in parts for pair in part.repeated_queries),
    )


@dataclass(frozen=True, eq=False)
class ExpectedOutput:
    """A part of the exact answer to a query, and the errors that are allowed without doubt."""

    number: int
    exact: Tensor
    allowed: Tensor


def _iter_expected(call: list[NumberedQuery]) -> Iterator[list[ExpectedOutput]]:
    """Yield, for each output of a call, the expected part of each query."""
    for k in range(len(call[0][1].exact)):
        block = []
        for number, query in call:
            exact, allowed = query.exact[k], query.allowed[k].expand_as(query.exact[k])
            block.append(ExpectedOutput(number, exact.detach(), allowed))
        yield block


def _compute_stacked_shapes(blocks: list[list[ExpectedOutput]]) -> tuple[tuple[int, ...], ...]:
    """Return the shapes of a call's outputs, whose parts are concatenated along the first axis."""
    return tuple(_compute_stacked_shape([part.exact for part in block]) for block in blocks)


def _compute_stacked_shape(parts: list[Tensor]) -> tuple[int, ...]:
    if len(parts) == 1:
        return tuple(parts[0].shape)
    return sum(part.shape[0] for part in parts), *parts[0].shape[1:]


def _find_repeated_queries(numbered: list[NumberedQuery]) -> Iterator[tuple[int, int]]:
    for alike in _group_queries(numbered, lambda query: query.id[0]):
        for one, other in itertools.pairwise(alike):
            yield one[0], other[0]


@dataclass(eq=False)
class RecordingChannel:
    """A channel that records requests instead of sending them, and counts their objects."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    object_count: int = 0

    def request(self, op: str, meta: Mapping[str, Any], tensors: NamedTensors = ()) -> Message:
        """Record a request. Objects are numbered in the order in which requests make them."""
        names = [name for name, _ in tensors]
        self.requests.append({"op": op, "meta": dict(meta), "tensors": names})
        self.tensors.extend(tensor for _, tensor in tensors)
        if op not in (CONSTRUCT.name, GET_FUNCTION.name):
            return Message(0, "ok")
        self.object_count += 1
        return Message(0, "ok", {"handle": self.object_count - 1})

    def record_call(self, adapter: ModuleAdapter, queries: Sequence[RecordedQuery]) -> None:
        """Record one call that answers all of these queries in one batch."""
        first = queries[0]
        if first.cotangent is not None:
            adapter.vjp(first.x, first.cotangent, first.mask, first.output)
            return
        x = torch.cat([query.x for query in queries]) if len(queries) > 1 else first.x
        assert isinstance(adapter.module, ChannelModule)
        adapter.module.evaluate(adapter.build_inputs(x, first.mask), first.memory)
