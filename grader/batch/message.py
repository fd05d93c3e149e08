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

from grader.batch.recording import Key
from grader.sandbox.grader_side.subject import ChannelSubject, taken
from grader.sandbox.wire import Message
from properties.property import Property
from properties.violation import Status, SubmissionFailed

NAMELESS = ""
"""stands in a script for the name of the definition that is judged"""
Tensors = tuple[tuple[str, Tensor], ...]


@dataclass(frozen=True)
class Found:
    """What the answers of one exchange, or of all, show."""

    inexact: frozenset[int]
    """questions that got another answer than the exact one, or two unlike ones"""
    float32: bool = False
    """whether some answers are only as exact as float32 allows"""
    rows: tuple[Tensor | None, ...] = field(default=(), compare=False)
    """the answers to each exchange; None where it failed"""


@dataclass(frozen=True)
class Construction:
    """The requests about one object, and the shapes of all tensors that must come back."""

    requests: Sequence[Mapping[str, Any]]
    shapes: tuple[tuple[int, ...], ...]

    @functools.cached_property
    def numbers(self) -> int:
        """How many must come back."""
        return sum(map(math.prod, self.shapes))


@dataclass(frozen=True, eq=False)
class Exchange:
    """Questions about constructions of one dtype, and the exact answers, end to end in a row."""

    constructions: tuple[Construction, ...]
    tensors: Tensors
    dtype: str
    device: str
    exact: Tensor
    allowed: Tensor
    allowed_float32: Tensor
    owners: Tensor
    """by number, the question that each element of the row answers"""
    twins: tuple[tuple[int, int], ...]
    """the same question under two numbers"""

    def put_to(self, subject: ChannelSubject, name: str) -> Found:
        """Ask a submission, under the name that it has. Raises SubmissionFailed."""
        return self.judged(self.asked_of(subject, name))

    def asked_of(self, subject: ChannelSubject, name: str) -> Message:
        """What a submission says. Raises SubmissionFailed."""
        return subject.ask("series", _named(self, name), self.tensors)

    def judged(self, reply: Message) -> Found:
        """Compare what came back with the exact answers. Raises SubmissionFailed."""
        row = self.row(reply)
        unlike = frozenset(n for pair in self.twins for n in pair if self._unlike(row, *pair))
        error = (row - self.exact).abs()
        rough = ~(error <= self.allowed)  # so that NaN is, too
        if not bool(rough.any()):
            return Found(unlike, rows=(row,))
        off = ~(error <= self.allowed_float32)
        inexact = frozenset(self.owners[off].tolist())
        float32 = not frozenset(self.owners[rough].tolist()) <= inexact
        return Found(unlike | inexact, float32, (row,))

    def row(self, reply: Message) -> Tensor:
        """What came back, end to end; NaN for what did not come, or not in its form.

        Raises SubmissionFailed.
        """
        said = taken(reply, _Said).constructions
        if len(said) != len(self.constructions) or sum(s.tensors for s in said) != len(
            reply.tensors
        ):
            text = "answered with other tensors than it announced"
            raise SubmissionFailed(Status.CRASHED, text)
        return torch.cat(list(self._parts(said, [tensor for _, tensor in reply.tensors])))

    def _parts(self, said: "list[_Answered]", outputs: list[Tensor]) -> Iterator[Tensor]:
        start = 0
        for asked, told in zip(self.constructions, said, strict=True):
            came = outputs[start : start + told.tensors]
            start += told.tensors
            if (
                tuple(tuple(output.shape) for output in came) == asked.shapes
                and set(told.dtypes) <= {self.dtype}
                and {device.split(":")[0] for device in told.devices} <= {self.device}
            ):
                yield from (output.flatten().to(torch.float64) for output in came)
            else:
                yield torch.full((asked.numbers,), math.nan, dtype=torch.float64)

    def _unlike(self, row: Tensor, one: int, other: int) -> bool:
        return not torch.equal(self.answer(row, one), self.answer(row, other))

    def answer(self, row: Tensor, number: int) -> Tensor:
        """The elements of a row that answer a question, output after output."""
        return row[self._places[number]]

    @functools.cached_property
    def _places(self) -> dict[int, Tensor]:
        """Where in the row the answer to each question is."""
        numbers, counts = self.owners.unique(return_counts=True)
        places = self.owners.argsort(stable=True).split(counts.tolist())
        return dict(zip(numbers.tolist(), places, strict=True))

    @functools.cached_property
    def questions(self) -> frozenset[int]:
        return frozenset(self._places)


@dataclass(frozen=True)
class _Answered:
    """What is said of the answers about one construction."""

    dtypes: list[str]
    devices: list[str]
    tensors: int


@dataclass(frozen=True)
class _Said:
    constructions: list[_Answered]


@functools.lru_cache(maxsize=64)
def _named(exchange: Exchange, name: str) -> dict[str, Any]:
    """What is asked of a definition with this name."""
    return {
        "constructions": [
            [_with_name(request, name) for request in construction.requests]
            for construction in exchange.constructions
        ]
    }


def _with_name(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    meta = request["meta"]
    return (
        {**request, "meta": {**meta, "name": name}}
        if meta.get("name") == NAMELESS
        else dict(request)
    )


@dataclass(frozen=True)
class Known:
    """How a question is known again, and what its answer looks like."""

    key: Key
    shapes: tuple[tuple[int, ...], ...]
    """of the outputs"""
    alone: bool
    """it shares its batch with no other"""


@dataclass(frozen=True, eq=False)
class Script:
    """All exchanges of an exercise, and which claims rest on which questions."""

    exchanges: tuple[Exchange, ...]
    questions: tuple[Known, ...]
    """by number"""
    asked: Mapping[Property, frozenset[int]]

    def put_to(self, subject: ChannelSubject, name: str) -> Found:
        """Put every exchange to a submission; where it fails, its questions count as inexact."""
        inexact: frozenset[int] = frozenset()
        float32 = False
        rows: list[Tensor | None] = []
        for exchange in self.exchanges:
            try:
                found = exchange.put_to(subject, name)
            except SubmissionFailed:
                found = Found(exchange.questions, rows=(None,))
            inexact |= found.inexact
            float32 |= found.float32
            rows.extend(found.rows)
        return Found(inexact, float32, tuple(rows))

    @functools.cached_property
    def alone(self) -> frozenset[int]:
        """Questions that are not stacked."""
        return frozenset(number for number, known in enumerate(self.questions) if known.alone)

    def proves(self, found: Found) -> frozenset[Property]:
        """The claims that follow from the answers."""
        inexact = found.inexact
        if inexact & self.alone:
            # Stacking rests on answers like these.
            inexact |= frozenset().union(*self.asked.values()) - self.alone
        return frozenset(claim for claim, asked in self.asked.items() if not asked & inexact)

    def recalled(self, found: Found, key: Key, *, alone: bool) -> tuple[Tensor, ...] | None:
        """The outputs that answered a question; None if nothing usable did.

        With `alone`, what shared its batch with other questions is left out.
        """
        number = self._numbers.get(key)
        if number is None or (alone and not self.questions[number].alone):
            return None
        exchange, row = self._exchange_of[number], found.rows[self._exchange_of[number]]
        if row is None:
            return None
        answer = self.exchanges[exchange].answer(row, number)
        if bool(answer.isnan().any()):  # perhaps it never came
            return None
        shapes = self.questions[number].shapes
        parts = answer.split([math.prod(shape) for shape in shapes])
        return tuple(part.view(shape) for part, shape in zip(parts, shapes, strict=True))

    @functools.cached_property
    def _numbers(self) -> dict[Key, int]:
        return {known.key: number for number, known in enumerate(self.questions)}

    @functools.cached_property
    def _exchange_of(self) -> dict[int, int]:
        """Which exchange holds which question."""
        return {n: i for i, each in enumerate(self.exchanges) for n in each.questions}
