"""A message with the questions about several constructions, and what the answers to it show.

The host carries out the requests of a construction in order and answers all of them at once; a
construction that fails on the way does not keep the others from being answered. The answers to all
of them, end to end, are one row of numbers, which is compared with the row of the exact ones.
"""

import functools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from grader.batch.recording import QueryId
from grader.sandbox.grader_side.subject import ChannelSubject, parse_reply
from grader.sandbox.wire import Message
from properties.property import Property
from properties.violation import Status, SubmissionFailed

PLACEHOLDER_NAME = ""
"""stands in a script for the name of the definition that is judged"""
NamedTensors = tuple[tuple[str, Tensor], ...]


@dataclass(frozen=True)
class Comparison:
    """What the answers of one exchange, or of all, show."""

    inexact: frozenset[int]
    """questions that got another answer than the exact one, or two unlike ones"""
    float32: bool = False
    """whether some answers are only as exact as float32 allows"""
    answer_rows: tuple[Tensor | None, ...] = field(default=(), compare=False)
    """the answers to each exchange; None where it failed"""


@dataclass(frozen=True)
class ObjectBatch:
    """The requests about one object, and the shapes of all tensors that must come back."""

    requests: Sequence[Mapping[str, Any]]
    shapes: tuple[tuple[int, ...], ...]

    @functools.cached_property
    def numel(self) -> int:
        """How many must come back."""
        return sum(map(math.prod, self.shapes))


@dataclass(frozen=True, eq=False)
class BatchRequest:
    """Questions about constructions of one dtype, and the exact answers, end to end in a row."""

    object_batches: tuple[ObjectBatch, ...]
    tensors: NamedTensors
    dtype: str
    device: str
    exact: Tensor
    allowed: Tensor
    allowed_float32: Tensor
    owners: Tensor
    """by number, the question that each element of the row answers"""
    repeated_queries: tuple[tuple[int, int], ...]
    """the same question under two numbers"""

    def run_on(self, subject: ChannelSubject, name: str) -> Comparison:
        """Ask a submission, under the name that it has. Raises SubmissionFailed."""
        return self.compare(self.send_to(subject, name))

    def send_to(self, subject: ChannelSubject, name: str) -> Message:
        """What a submission says. Raises SubmissionFailed."""
        return subject.ask("series", _build_meta(self, name), self.tensors)

    def compare(self, reply: Message) -> Comparison:
        """Compare what came back with the exact answers. Raises SubmissionFailed."""
        row = self.join_answers(reply)
        unlike = frozenset(
            n for pair in self.repeated_queries for n in pair if self._differs(row, *pair)
        )
        error = (row - self.exact).abs()
        rough = ~(error <= self.allowed)  # so that NaN is, too
        if not bool(rough.any()):
            return Comparison(unlike, answer_rows=(row,))
        off = ~(error <= self.allowed_float32)
        inexact = frozenset(self.owners[off].tolist())
        float32 = not frozenset(self.owners[rough].tolist()) <= inexact
        return Comparison(unlike | inexact, float32, (row,))

    def join_answers(self, reply: Message) -> Tensor:
        """What came back, end to end; NaN for what did not come, or not in its form.

        Raises SubmissionFailed.
        """
        said = parse_reply(reply, _BatchReply).constructions
        if len(said) != len(self.object_batches) or sum(s.tensors for s in said) != len(
            reply.tensors
        ):
            text = "answered with other tensors than it announced"
            raise SubmissionFailed(Status.CRASHED, text)
        return torch.cat(list(self._iter_answers(said, [tensor for _, tensor in reply.tensors])))

    def _iter_answers(self, said: "list[_ObjectReply]", outputs: list[Tensor]) -> Iterator[Tensor]:
        start = 0
        for asked, told in zip(self.object_batches, said, strict=True):
            came = outputs[start : start + told.tensors]
            start += told.tensors
            if (
                tuple(tuple(output.shape) for output in came) == asked.shapes
                and set(told.dtypes) <= {self.dtype}
                and {device.split(":")[0] for device in told.devices} <= {self.device}
            ):
                yield from (output.flatten().to(torch.float64) for output in came)
            else:
                yield torch.full((asked.numel,), math.nan, dtype=torch.float64)

    def _differs(self, row: Tensor, one: int, other: int) -> bool:
        return not torch.equal(self.get_answer(row, one), self.get_answer(row, other))

    def get_answer(self, row: Tensor, number: int) -> Tensor:
        """The elements of a row that answer a question, output after output."""
        return row[self._positions[number]]

    @functools.cached_property
    def _positions(self) -> dict[int, Tensor]:
        """Where in the row the answer to each question is."""
        numbers, counts = self.owners.unique(return_counts=True)
        places = self.owners.argsort(stable=True).split(counts.tolist())
        return dict(zip(numbers.tolist(), places, strict=True))

    @functools.cached_property
    def queries(self) -> frozenset[int]:
        return frozenset(self._positions)


@dataclass(frozen=True)
class _ObjectReply:
    """What is said of the answers about one construction."""

    dtypes: list[str]
    devices: list[str]
    tensors: int


@dataclass(frozen=True)
class _BatchReply:
    constructions: list[_ObjectReply]


@functools.lru_cache(maxsize=64)
def _build_meta(batch: BatchRequest, name: str) -> dict[str, Any]:
    """What is asked of a definition with this name."""
    return {
        "constructions": [
            [_fill_in_name(request, name) for request in object_batch.requests]
            for object_batch in batch.object_batches
        ]
    }


def _fill_in_name(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    meta = request["meta"]
    return (
        {**request, "meta": {**meta, "name": name}}
        if meta.get("name") == PLACEHOLDER_NAME
        else dict(request)
    )


@dataclass(frozen=True)
class QueryKey:
    """How a question is known again, and what its answer looks like."""

    key: QueryId
    shapes: tuple[tuple[int, ...], ...]
    """of the outputs"""
    unstacked: bool
    """it shares its batch with no other"""


@dataclass(frozen=True, eq=False)
class BatchPlan:
    """All exchanges of an exercise, and which claims rest on which questions."""

    batches: tuple[BatchRequest, ...]
    query_keys: tuple[QueryKey, ...]
    """by number"""
    queries_by_property: Mapping[Property, frozenset[int]]

    def run_on(self, subject: ChannelSubject, name: str) -> Comparison:
        """Put every exchange to a submission; where it fails, its questions count as inexact."""
        inexact: frozenset[int] = frozenset()
        float32 = False
        rows: list[Tensor | None] = []
        for batch in self.batches:
            try:
                comparison = batch.run_on(subject, name)
            except SubmissionFailed:
                comparison = Comparison(batch.queries, answer_rows=(None,))
            inexact |= comparison.inexact
            float32 |= comparison.float32
            rows.extend(comparison.answer_rows)
        return Comparison(inexact, float32, tuple(rows))

    @functools.cached_property
    def unstacked(self) -> frozenset[int]:
        """Questions that are not stacked."""
        return frozenset(
            number for number, query_key in enumerate(self.query_keys) if query_key.unstacked
        )

    def find_proven(self, comparison: Comparison) -> frozenset[Property]:
        """The claims that follow from the answers."""
        inexact = comparison.inexact
        if inexact & self.unstacked:
            # Stacking rests on answers like these.
            inexact |= frozenset().union(*self.queries_by_property.values()) - self.unstacked
        return frozenset(
            claim for claim, asked in self.queries_by_property.items() if not asked & inexact
        )

    def recall(
        self, comparison: Comparison, key: QueryId, *, unstacked: bool
    ) -> tuple[Tensor, ...] | None:
        """The outputs that answered a question; None if nothing usable did.

        With `unstacked`, answers that shared their batch with other queries are left out.
        """
        number = self._number_by_key.get(key)
        if number is None or (unstacked and not self.query_keys[number].unstacked):
            return None
        batch, row = (
            self._batch_by_query[number],
            comparison.answer_rows[self._batch_by_query[number]],
        )
        if row is None:
            return None
        answer = self.batches[batch].get_answer(row, number)
        if bool(answer.isnan().any()):  # perhaps it never came
            return None
        shapes = self.query_keys[number].shapes
        parts = answer.split([math.prod(shape) for shape in shapes])
        return tuple(part.view(shape) for part, shape in zip(parts, shapes, strict=True))

    @functools.cached_property
    def _number_by_key(self) -> dict[QueryId, int]:
        return {query_key.key: number for number, query_key in enumerate(self.query_keys)}

    @functools.cached_property
    def _batch_by_query(self) -> dict[int, int]:
        """Which exchange holds which question."""
        return {n: i for i, each in enumerate(self.batches) for n in each.queries}
