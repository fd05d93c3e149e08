"""The messages of a batch plan, and the comparison of their answers with the exact ones.

A message holds the requests about several objects. The worker carries out the requests about one
object in order, and answers the whole message in one reply. If a call fails or an object cannot be
made, only the answers to it are missing. All answers to a message are concatenated into one vector
of numbers, which is compared with the vector of exact answers.
"""

import functools
import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from headcheck.grader.batch.recording import QueryId
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.grader.sandbox.operations import (
    RUN_BATCH,
    Answer,
    BatchReply,
    NamedTensors,
    ObjectReply,
)
from headcheck.grader.sandbox.wire import PackedTensors
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status, SubmissionFailed

PLACEHOLDER_NAME = ""
"""the placeholder in a plan for the name of the definition under check"""


@dataclass(frozen=True)
class Comparison:
    """The result of comparing the answers to one or all messages with the exact answers."""

    inexact: frozenset[int]
    """the queries whose answer may not be exact, or which got two different answers"""
    answer_rows: tuple[Tensor | None, ...] = field(default=(), compare=False)
    """the answers to each message; None if the message failed"""
    late: bool = False
    """whether a message took too long"""


@dataclass(frozen=True)
class ObjectBatch:
    """The requests about one object, and the shapes of the tensors that each must return."""

    requests: Sequence[Mapping[str, Any]]
    shapes: tuple[tuple[tuple[int, ...], ...], ...]

    @functools.cached_property
    def numel(self) -> int:
        """How many numbers the requests must return."""
        return sum(map(_count_numbers, self.shapes))


def _count_numbers(shapes: Sequence[tuple[int, ...]]) -> int:
    return sum(map(math.prod, shapes))


@dataclass(frozen=True, eq=False)
class BatchRequest:
    """The requests about objects of one dtype, and the exact answers, concatenated into one row."""

    object_batches: tuple[ObjectBatch, ...]
    tensors: NamedTensors
    dtype: str
    device: str
    exact: Tensor
    allowed: Tensor
    """the errors within which an answer is exact without doubt"""
    owners: Tensor
    """for each element of the row of answers, the number of the query that it answers"""
    repeated_queries: tuple[tuple[int, int], ...]
    """pairs of numbers that stand for the same query"""

    def run_on(self, subject: ChannelSubject, name: str) -> Comparison:
        """Send the requests about a definition of this name. Raises SubmissionFailed."""
        return self.compare(self.send_to(subject, name))

    def send_to(self, subject: ChannelSubject, name: str) -> Answer[BatchReply]:
        """Return the reply of a submission. Raises SubmissionFailed."""
        return subject.ask(RUN_BATCH, _build_meta(self, name), self.tensors)

    def compare(self, answer: Answer[BatchReply]) -> Comparison:
        """Compare the answers in a reply with the exact ones. Raises SubmissionFailed."""
        row = self.join_answers(answer)
        unlike = frozenset(
            n for pair in self.repeated_queries for n in pair if self._differs(row, *pair)
        )
        off = ~((row - self.exact).abs() <= self.allowed)  # true for NaN, too
        return Comparison(unlike | frozenset(self.owners[off].tolist()), (row,))

    def join_answers(self, answer: Answer[BatchReply]) -> Tensor:
        """Return the concatenated answers, with NaN for those that are missing or malformed.

        Raises SubmissionFailed.
        """
        replies, sent = answer[0].constructions, answer[1]
        counts = [count for each in replies for count in each.tensors]
        is_announced = min(counts, default=0) >= 0 and sum(counts) == len(sent)
        if len(replies) != len(self.object_batches) or not is_announced:
            text = "answered with other tensors than it announced"
            raise SubmissionFailed(Status.CRASHED, text)
        tensors = iter([tensor for _, tensor in sent])
        pairs = zip(self.object_batches, replies, strict=True)
        return torch.cat([row for pair in pairs for row in self._iter_answers(*pair, tensors)])

    def _iter_answers(
        self, object_batch: ObjectBatch, reply: ObjectReply, tensors: Iterator[Tensor]
    ) -> Iterator[Tensor]:
        """Yield the numbers that each request about an object returned, or NaN in their place."""
        replied = [list(itertools.islice(tensors, count)) for count in reply.tensors]
        missing: list[list[Tensor]] = [[]] * (len(object_batch.requests) - len(replied))
        is_usable = set(reply.dtypes) <= {self.dtype} and {
            device.split(":")[0] for device in reply.devices
        } <= {self.device}
        for shapes, outputs in zip(object_batch.shapes, [*replied, *missing], strict=False):
            if is_usable and tuple(tuple(output.shape) for output in outputs) == shapes:
                yield from (output.flatten().to(torch.float64) for output in outputs)
            else:
                yield torch.full((_count_numbers(shapes),), math.nan, dtype=torch.float64)

    def _differs(self, row: Tensor, one: int, other: int) -> bool:
        return not torch.equal(self.get_answer(row, one), self.get_answer(row, other))

    def get_answer(self, row: Tensor, number: int) -> Tensor:
        """Return the elements of a row that answer a query, output after output."""
        return row[self._positions[number]]

    @functools.cached_property
    def _positions(self) -> dict[int, Tensor]:
        """The positions of each query's answer in the row."""
        numbers, counts = self.owners.unique(return_counts=True)
        places = self.owners.argsort(stable=True).split(counts.tolist())
        return dict(zip(numbers.tolist(), places, strict=True))

    @functools.cached_property
    def queries(self) -> frozenset[int]:
        return frozenset(self._positions)


@functools.lru_cache(maxsize=64)
def _build_meta(batch: BatchRequest, name: str) -> dict[str, Any]:
    """Return the requests to a definition of this name."""
    return {
        "constructions": [
            [fill_in_name(request, name) for request in object_batch.requests]
            for object_batch in batch.object_batches
        ]
    }


def fill_in_name(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    """Return a request with the name of the definition in place of the placeholder."""
    meta = request["meta"]
    return (
        {**request, "meta": {**meta, "name": name}}
        if meta.get("name") == PLACEHOLDER_NAME
        else dict(request)
    )


@dataclass(frozen=True)
class QueryKey:
    """The key that identifies a query, and the form of its answer."""

    key: QueryId
    shapes: tuple[tuple[int, ...], ...]
    """the shapes of the outputs"""
    unstacked: bool
    """whether the query has its own batch, not shared with other queries"""


@dataclass(frozen=True, eq=False)
class Transcript:
    """The requests of one check, in order, with their tensors concatenated."""

    requests: Sequence[Mapping[str, Any]]
    """op, meta and tensor names of each request; objects have numbers"""
    tensors: PackedTensors

    def name_definition(self, name: str) -> list[Mapping[str, Any]]:
        """Return the requests for a definition of this name."""
        return [fill_in_name(request, name) for request in self.requests]


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """All messages of an exercise, and the queries that each property uses."""

    batches: tuple[BatchRequest, ...]
    query_keys: tuple[QueryKey, ...]
    """the key of each query, by number"""
    queries_by_property: Mapping[Property, frozenset[int]]
    transcripts: Mapping[Property, Transcript] = field(default_factory=dict)
    """the transcripts of properties that are checked live"""
    cases: Mapping[Property, tuple[Case, ...]] = field(default_factory=dict)
    """the cases of every property"""

    def run_on(self, subject: ChannelSubject, name: str) -> Comparison:
        """Send every message to a submission; the queries of a failed message count as inexact."""
        inexact: frozenset[int] = frozenset()
        rows: list[Tensor | None] = []
        late = False
        for batch in self.batches:
            try:
                comparison = batch.run_on(subject, name)
            except SubmissionFailed as failed:
                comparison = Comparison(batch.queries, answer_rows=(None,))
                late |= failed.status in (Status.TIMED_OUT, Status.NOT_ASKED)
            inexact |= comparison.inexact
            rows.extend(comparison.answer_rows)
        return Comparison(inexact, tuple(rows), late)

    @functools.cached_property
    def unstacked(self) -> frozenset[int]:
        """The queries that are not stacked with others in one batch."""
        return frozenset(
            number for number, query_key in enumerate(self.query_keys) if query_key.unstacked
        )

    def find_proven(self, comparison: Comparison) -> frozenset[Property]:
        """Return the properties that follow from exact answers."""
        inexact = comparison.inexact
        if inexact & self.unstacked:
            # Stacked answers are trusted only if all of these are exact.
            inexact |= frozenset().union(*self.queries_by_property.values()) - self.unstacked
        return frozenset(
            prop for prop, queries in self.queries_by_property.items() if not queries & inexact
        )

    def recall(
        self, comparison: Comparison, key: QueryId, *, unstacked: bool
    ) -> tuple[Tensor, ...] | None:
        """Return the outputs that answered a query; None if there are no usable ones.

        With `unstacked`, answers that shared their batch with other queries are left out.
        """
        number = self._number_by_key.get(key)
        if number is None or (unstacked and not self.query_keys[number].unstacked):
            return None
        batch = self._batch_by_query[number]
        row = comparison.answer_rows[batch]
        if row is None:
            return None
        answer = self.batches[batch].get_answer(row, number)
        if bool(answer.isnan().any()):  # it may stand for a missing answer
            return None
        shapes = self.query_keys[number].shapes
        parts = answer.split([math.prod(shape) for shape in shapes])
        return tuple(part.view(shape) for part, shape in zip(parts, shapes, strict=True))

    @functools.cached_property
    def _number_by_key(self) -> dict[QueryId, int]:
        return {query_key.key: number for number, query_key in enumerate(self.query_keys)}

    @functools.cached_property
    def _batch_by_query(self) -> dict[int, int]:
        """The position of the message that holds each query."""
        return {n: i for i, each in enumerate(self.batches) for n in each.queries}
