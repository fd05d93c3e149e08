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
from properties.contract import Contract, Entry, Trait
from properties.harness.harness import Bench, Trial
from properties.harness.module_adapter import Instance
from properties.oracle import Expected, digest
from properties.property import Group, Property
from properties.subject import How, Module, Returned, Value
from properties.tolerance import Allowed
from reference import Parameters

T = TypeVar("T")
LARGEST = 1 << 18
"""Questions with more scores or larger weights than this are not worth laying out beforehand."""
EXACT = ("float64", "float32")
"""Of coarser dtypes only finite numbers are demanded."""
Key = tuple[bytes, int | None]
"""What tells questions apart: their content, and the seed of one that is asked again."""


class Unforeseen(Exception):
    """A judge reached for what only a submission has."""


@dataclass(frozen=True, eq=False)
class Question:
    """What the output for these tokens under those parameters is, or its gradients; the answer."""

    case: Case
    x: Tensor
    parameters: Parameters
    mask: Tensor | None
    memory: str
    alone: bool
    """whether it may share its batch with no other question"""
    cotangent: Tensor | None
    """whose gradients are asked for; None if the output is"""
    exact: tuple[Tensor, ...]
    """the answer, tensor by tensor, as a submission gives it"""
    allowed: tuple[Allowed, ...]
    key: Key

    @property
    def content(self) -> bytes:
        """What must have the same answer whenever it is asked."""
        return self.key[0]


Asked = dict[Key, Question]


@dataclass(frozen=True, eq=False)
class Rehearsed:
    """What a set of claims asks: all questions, and by number those of each claim."""

    questions: tuple[Question, ...]
    asked: Mapping[Property, frozenset[int]]
    """claims that cannot be rehearsed are not there"""


def rehearse(contract: Contract, plan: Mapping[Property, Sequence[Case]]) -> Rehearsed:
    """Let every judge ask the equation on all of its cases.

    Raises Violation where the equation itself does not keep a claim: a fault of ours.
    """
    stage = Stage(contract)
    asked = {claim: stage.asked_by(claim, cases) for claim, cases in plan.items()}
    questions: Asked = {}
    for key, question in (each for those in asked.values() if those for each in those.items()):
        if key not in questions or question.alone:  # once alone, always alone
            questions[key] = question
    numbers = {key: number for number, key in enumerate(questions)}
    return Rehearsed(
        tuple(questions.values()),
        {
            c: frozenset(numbers[k] for k in those)
            for c, those in asked.items()
            if those is not None
        },
    )


class Stage(Bench):
    """Where claims are rehearsed, one after the other."""

    def __init__(self, contract: Contract) -> None:
        super().__init__(Nobody(), contract)
        self.exact: dict[bytes, Expected] = {}
        self.alone = False
        self.questions: Asked = {}

    def asked_by(self, claim: Property, cases: Sequence[Case]) -> "Asked | None":
        """What its judge asks on all cases; None if it cannot be rehearsed."""
        self.alone = claim.group is Group.BATCH
        self.questions = {}
        try:
            for case in cases:
                claim.judge(self.trial(case))
        except Unforeseen:
            return None
        return self.questions

    @cached_property
    def contract(self) -> Contract:
        return self.asked

    def fresh(self, case: Case) -> Trial:
        return Rehearsal(self, self.contract, case)


class Foretold(Trial, ABC):
    """A trial without a submission: what it may be asked has an answer that is known."""

    @property
    def instance(self) -> Instance:
        raise Unforeseen

    def returned(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
        how: How | None = None,
        instance: Instance | None = None,
    ) -> "Foreseen":
        x = self.x if x is None else x
        how = how or How(memory=self.memory(x))
        strange = instance is not None or how.training or how.watched or how.grad != "no_grad"
        if strange or self._is_large(x) or self.case.dtype not in EXACT:
            raise Unforeseen
        mask = self.mask if isinstance(mask, EllipsisType) else mask
        content = _digest(self._content(x, parameters, mask), repr((self.case, how.memory)))
        outputs = self.known((content, how.seed), x, parameters or self.parameters, mask, how)
        dtypes, devices = (self.case.dtype,) * len(outputs), (self.case.device,) * len(outputs)
        return Foreseen(outputs, "foretold", dtypes, devices)

    @abstractmethod
    def known(
        self, key: Key, x: Tensor, parameters: Parameters, mask: Tensor | None, how: How
    ) -> tuple[Tensor, ...]:
        """The outputs, with a batch axis, in the dtype of the case. May raise Unforeseen."""

    def _key_of_gradients(self, cotangent: Tensor) -> Key:
        content = self._content(None, None, ...)
        return _digest(content, repr(self.case), digest(cotangent)), None

    def _is_large(self, x: Tensor) -> bool:
        scores = x.shape[0] * self.case.heads * x.shape[1] ** 2
        return max(scores, self.case.d_in * self.case.d_out) > LARGEST

    def _content(
        self, x: Tensor | None, parameters: Parameters | None, mask: Tensor | EllipsisType | None
    ) -> bytes:
        """What an exact answer depends on."""
        names, tensors = zip(*(parameters or self.parameters).items(), strict=True)
        mask = self.mask if isinstance(mask, EllipsisType) else mask
        sizes = repr((self.case.heads, self.case.head_dim, self.case.dtype, names))
        return _digest(sizes, digest(self.x if x is None else x, mask, *tensors))


class Rehearsal(Foretold):
    """A trial of the equation itself, which writes down what it is asked.

    Answers are not kept: every claim asks for itself.
    """

    bench: Stage

    @property
    def answer(self) -> tuple[Tensor, ...]:
        return self.run()

    def once(self, compute: Callable[[Trial], T]) -> T:
        return compute(self)

    def known(
        self, key: Key, x: Tensor, parameters: Parameters, mask: Tensor | None, how: How
    ) -> tuple[Tensor, ...]:
        expected = self.expect(x, parameters, mask)
        self.bench.questions[key] = Question(
            self.case,
            x,
            parameters,
            mask,
            how.memory,
            self.bench.alone or x is self.x,
            None,
            tuple(self._without_axis(output) for output in expected.outputs),
            tuple(
                Allowed(self._without_axis(limit.exact), self._without_axis(limit.float32))
                for limit in expected.allowed
            ),
            key,
        )
        return tuple(map(self.spoken, expected.outputs, expected.allowed))

    def gradients(self, cotangent: Tensor) -> dict[str, Tensor | None]:
        if self.contract.entry is Entry.FUNCTION or self._is_large(self.x):
            raise Unforeseen
        found = self.exact_gradients(cotangent)
        limits = {name: found.allowed(name) for name in found.values}
        exact, narrow, wide = (
            self._as_stored(named)
            for named in (
                found.values,
                {name: limit.exact for name, limit in limits.items()},
                {name: limit.float32 for name, limit in limits.items()},
            )
        )
        key = self._key_of_gradients(cotangent)
        self.bench.questions[key] = Question(
            self.case,
            self.x,
            self.parameters,
            self.mask,
            "contiguous",
            True,
            cotangent,
            exact,
            tuple(map(Allowed, narrow, wide)),
            key,
        )
        return {name: self.spoken(t, limits[name]) for name, t in found.values.items()}

    def spoken(self, exact: Tensor, allowed: Allowed) -> Tensor:
        """An exact answer as it is given: rounded to the dtype of the case."""
        return exact.to(DTYPES[self.case.dtype])

    def _as_stored(self, named: Mapping[str, Tensor]) -> tuple[Tensor, ...]:
        """A gradient's parts as a submission keeps what they belong to, the input's first."""
        asked = self.contract.answering
        parameters = Parameters(**{name: named[name] for name, _ in self.parameters.items()})
        stored = (tensor for _, tensor in asked.stored(parameters, self.case))
        return self._without_axis(named["x"]), *stored

    def _without_axis(self, tensor: Tensor) -> Tensor:
        """As the submission gives it, if it knows no batch."""
        return tensor if self.contract.has(Trait.BATCH) else tensor[0]

    def expect(
        self,
        x: Tensor | None = None,
        parameters: Parameters | None = None,
        mask: Tensor | EllipsisType | None = ...,
    ) -> Expected:
        content = self._content(x, parameters, mask)
        if content not in self.bench.exact:
            self.bench.exact[content] = super().expect(x, parameters, mask)
        return self.bench.exact[content]


@dataclass(frozen=True)
class Foreseen(Returned):
    """What comes back where no submission is asked: outputs, and nothing seen besides."""

    def __getattribute__(self, name: str) -> object:
        if name in SEEN:
            raise Unforeseen
        return super().__getattribute__(name)


SEEN = {field.name for field in fields(Returned)} - {"outputs", "dtypes", "devices", "form"}


def _digest(*parts: str | bytes) -> bytes:
    told = (part.encode() if isinstance(part, str) else part for part in parts)
    return hashlib.blake2b(b"|".join(told), digest_size=16).digest()


class Nobody:
    """The subject of a rehearsal: there is none."""

    def construct(
        self,
        name: str,
        arguments: Mapping[str, Value],
        seed: int | None,
        dtype: str | None = None,
        device: str | None = None,
    ) -> Module:
        raise Unforeseen

    def function(self, name: str) -> Module:
        raise Unforeseen

    def call(self, name: str, modules: Sequence[Module]) -> None:
        raise Unforeseen
