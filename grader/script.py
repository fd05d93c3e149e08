"""The questions of a rehearsal as a few long messages, and what the answers to them prove.

One exchange holds all questions about one construction. Its requests are those that an `Instance`
makes when it is asked one question after another, noted instead of sent; the host carries them out
in order and answers all of them at once. Stacked questions share a request along the batch axis.
"""

import functools
import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from exercises import Exercise
from grader.sandbox.wire import Message, Ready, positional
from grader.subject import ChannelModule, ChannelSubject, taken
from properties.case import Case
from properties.contract import Contract, Slot, Trait
from properties.instance import Instance, construct
from properties.oracle import digest
from properties.property import Group, Property, Verdict, in_order
from properties.rehearsal import Question, rehearse
from properties.trial import FLOAT32, Bench
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


@dataclass(frozen=True, eq=False)
class Exchange:
    """All questions about one construction, and the exact answers to them, end to end in a row."""

    requests: Sequence[Mapping[str, Any]]
    tensors: Tensors
    dtype: str
    device: str
    shapes: tuple[tuple[int, ...], ...]
    """of all tensors that must come back, in order"""
    exact: Tensor
    allowed: Tensor
    allowed_float32: Tensor
    owners: Tensor
    """by number, the question that each element of the row answers"""
    twins: tuple[tuple[int, int], ...]
    """the same question under two numbers"""

    def put_to(self, subject: ChannelSubject, name: str) -> Found:
        """Ask a submission, under the name that it has. Raises SubmissionFailed."""
        return self.judged(subject.ask("series", self.named(name), self.tensors))

    def named(self, name: str) -> dict[str, Any]:
        """What is asked of a definition with this name."""
        return {"requests": [_named(request, name) for request in self.requests]}

    def judged(self, reply: Message) -> Found:
        """Compare what came back with the exact answers."""
        said = taken(reply, _Said)
        outputs = [tensor for _, tensor in reply.tensors]
        if (
            tuple(tuple(output.shape) for output in outputs) != self.shapes
            or not set(said.dtypes) <= {self.dtype}
            or not {device.split(":")[0] for device in said.devices} <= {self.device}
        ):
            return Found(self.questions)
        row = torch.cat([output.flatten() for output in outputs]).to(torch.float64)
        unlike = frozenset(n for pair in self.twins for n in pair if self._unlike(row, *pair))
        error = (row - self.exact).abs()
        rough = ~(error <= self.allowed)  # so that NaN is, too
        if not bool(rough.any()):
            return Found(unlike)
        off = ~(error <= self.allowed_float32)
        inexact = frozenset(self.owners[off].tolist())
        return Found(unlike | inexact, not frozenset(self.owners[rough].tolist()) <= inexact)

    def _unlike(self, row: Tensor, one: int, other: int) -> bool:
        return not torch.equal(row[self.owners == one], row[self.owners == other])

    @functools.cached_property
    def questions(self) -> frozenset[int]:
        return frozenset(self.owners.tolist())


@dataclass(frozen=True)
class _Said:
    dtypes: list[str]
    devices: list[str]


def _named(request: Mapping[str, Any], name: str) -> dict[str, Any]:
    meta = request["meta"]
    return (
        {**request, "meta": {**meta, "name": name}}
        if meta.get("name") == NAMELESS
        else dict(request)
    )


@dataclass(frozen=True, eq=False)
class Script:
    """All exchanges of an exercise, and which claims rest on which questions."""

    exchanges: tuple[Exchange, ...]
    alone: frozenset[int]
    """questions that are not stacked"""
    asked: Mapping[Property, frozenset[int]]

    def proves(self, found: Found) -> frozenset[Property]:
        """The claims that follow from the answers."""
        inexact = found.inexact
        if inexact & self.alone:
            # Stacking rests on answers like these.
            inexact |= frozenset().union(*self.asked.values()) - self.alone
        return frozenset(claim for claim, asked in self.asked.items() if not asked & inexact)


Watch = Callable[[Verdict], None]
"""Is told a verdict. If all are judged a second time, it is told of each a second time."""


def unwatched(verdict: Verdict) -> None:
    """Nobody waits for single verdicts."""


def verdicts_on(
    bench: Bench,
    exercise: Exercise,
    one: Callable[[Property, Sequence[Case]], Verdict],
    afresh: Callable[[], None],
    seed: int = 0,
    device: str = "cpu",
    watch: Watch = unwatched,
) -> list[Verdict]:
    """A verdict on every claim; `one` judges those that do not follow from exact answers.

    If the submission remembers what it was asked, the verdicts would depend on all that was: then
    `afresh` makes it forget, and every claim is judged by itself. `watch` is told each as it comes.
    """
    plan = exercise.plan(seed, device)
    known = proved(bench, exercise, seed, device)
    passed = {claim: Verdict(claim, Status.PASSED, len(plan[claim])) for claim in known}
    verdicts = _watched(
        in_order(plan, lambda p: passed[p] if p in passed else one(p, plan[p])), watch
    )
    if passed and any(remembers(verdict) for verdict in verdicts):
        afresh()
        verdicts = _watched(in_order(plan, lambda p: one(p, plan[p])), watch)
    return verdicts


def _watched(verdicts: Iterable[Verdict], watch: Watch) -> list[Verdict]:
    seen = []
    for verdict in verdicts:
        watch(verdict)
        seen.append(verdict)
    return seen


def remembers(verdict: Verdict) -> bool:
    """Whether this says that calls of a submission have effects besides their answers."""
    troubled = verdict.status not in (Status.PASSED, Status.NOT_TRIED)
    return troubled and verdict.property.group is Group.PURITY


def proved(
    bench: Bench, exercise: Exercise, seed: int = 0, device: str = "cpu"
) -> frozenset[Property]:
    """The claims that need not be judged: every answer that they rest on is the exact one."""
    contract = bench.contract
    script = script_of(exercise, contract.slots, seed, device)
    assert isinstance(bench.subject, ChannelSubject)
    found = put(script, bench.subject, contract.name)
    if found.float32:
        bench.note(FLOAT32)
    return script.proves(found)


@functools.lru_cache(maxsize=64)
def script_of(exercise: Exercise, slots: tuple[Slot, ...], seed: int, device: str) -> Script:
    """The script of an exercise, for definitions that keep their parameters in these places."""
    contract = replace(exercise.contract, name=NAMELESS, slots=slots)
    return compiled(contract, exercise.plan(seed, device))


def compiled(contract: Contract, cases: Mapping[Property, Sequence[Case]]) -> Script:
    """Rehearse the claims, and lay out their questions construction by construction."""
    rehearsed = rehearse(contract, cases)
    numbered = list(enumerate(rehearsed.questions))
    exchanges = [
        _exchange(contract, about)
        for about in _grouped(numbered, functools.partial(_made, contract))
    ]
    alone = frozenset(number for number, question in numbered if question.alone)
    return Script(tuple(exchanges), alone, rehearsed.asked)


Numbered = tuple[int, Question]


def _grouped(numbered: Sequence[Numbered], key: Any) -> list[list[Numbered]]:
    """In groups of the same key, in the order of first appearance."""
    groups: dict[Any, list[Numbered]] = {}
    for number, question in numbered:
        groups.setdefault(key(question), []).append((number, question))
    return list(groups.values())


def _made(contract: Contract, question: Question) -> tuple[object, ...]:
    """What tells one construction from another."""
    case = question.case
    arguments = repr(contract.arguments_for(case))
    sizes = case.d_in, case.heads, case.head_dim, contract.biases(case)
    return arguments, *sizes, case.dtype, case.device


def _stackable(question: Question) -> object:
    """Questions of the same value share a batch."""
    mask = question.mask
    own = mask is not None and mask.dim() == 4 and mask.shape[0] > 1
    if question.alone or own or question.memory != "contiguous":
        return question
    shown = None if mask is None else (str(mask.dtype), digest(mask))
    return tuple(question.x.shape[1:]), shown


def _exchange(contract: Contract, about: list[Numbered]) -> Exchange:
    noted = Noted()
    case = about[0][1].case
    instance = construct(ChannelSubject(noted), contract, case, seed=case.seed)
    calls: list[list[Numbered]] = []
    for alike in _grouped(about, lambda q: digest(*(t for _, t in q.parameters.items()))):
        instance.set(alike[0][1].parameters)
        can_stack = contract.has(Trait.BATCH)
        for call in _grouped(alike, _stackable) if can_stack else [[one] for one in alike]:
            noted.ask(instance, [question for _, question in call])
            calls.append(call)
    return _expecting(noted, instance, calls)


def _expecting(noted: "Noted", instance: Instance, calls: list[list[Numbered]]) -> Exchange:
    """The noted requests with the answers that must come back, output by output."""
    blocks = [block for call in calls for block in _blocks(call)]
    parts = [part for block in blocks for part in block]
    case = instance.case
    return Exchange(
        noted.requests,
        Ready(positional(noted.tensors)),
        case.dtype,
        case.device.split(":")[0],
        tuple(_shape([exact for _, exact, _, _ in block]) for block in blocks),
        torch.cat([exact.flatten() for _, exact, _, _ in parts]),
        torch.cat([allowed.flatten() for _, _, allowed, _ in parts]),
        torch.cat([float32.flatten() for _, _, _, float32 in parts]),
        torch.cat([torch.full((exact.numel(),), number) for number, exact, _, _ in parts]),
        tuple(_twins([one for call in calls for one in call])),
    )


Part = tuple[int, Tensor, Tensor, Tensor]


def _blocks(call: list[Numbered]) -> Iterator[list[Part]]:
    """For each output of a call: whose part is what, exactly, and how far it may be off."""
    for k in range(len(call[0][1].exact)):
        block = []
        for number, question in call:
            exact, allowed = question.exact[k], question.allowed[k]
            wide = (allowed.exact.expand_as(exact), allowed.float32.expand_as(exact))
            block.append((number, exact.detach(), *wide))
        yield block


def _shape(parts: list[Tensor]) -> tuple[int, ...]:
    """Of what comes back to a call: the parts lie one after the other along the first axis."""
    if len(parts) == 1:
        return tuple(parts[0].shape)
    return sum(part.shape[0] for part in parts), *parts[0].shape[1:]


def _twins(numbered: list[Numbered]) -> Iterator[tuple[int, int]]:
    for alike in _grouped(numbered, lambda question: question.content):
        for one, other in itertools.pairwise(alike):
            yield one[0], other[0]


@dataclass(eq=False)
class Noted:
    """A channel that sends nothing: it notes requests, and counts the objects they would make."""

    requests: list[dict[str, Any]] = field(default_factory=list)
    tensors: list[Tensor] = field(default_factory=list)
    made: int = 0
    held: dict[str, Tensor] = field(default_factory=dict)

    def request(self, op: str, meta: Mapping[str, Any], tensors: Tensors = ()) -> Message:
        """Note it. Objects are known by the order in which the series makes them."""
        if op == "write":
            tensors = self._changed(tensors)
        names = [name for name, _ in tensors]
        self.requests.append({"op": op, "meta": dict(meta), "tensors": names})
        self.tensors.extend(tensor for _, tensor in tensors)
        if op not in ("construct", "function"):
            return Message(0, "ok")
        self.made += 1
        return Message(0, "ok", {"handle": self.made - 1})

    def _changed(self, tensors: Tensors) -> Tensors:
        """Those that the object (a series has one to write to) does not hold already."""
        new = [(n, t) for n, t in tensors if n not in self.held or not torch.equal(t, self.held[n])]
        self.held.update(new)
        return tuple(new)

    def ask(self, instance: Instance, questions: Sequence[Question]) -> None:
        """Note one call that answers these questions side by side."""
        first = questions[0]
        if first.cotangent is not None:
            instance.vjp(first.x, first.cotangent, first.mask)
            return
        x = torch.cat([question.x for question in questions]) if len(questions) > 1 else first.x
        assert isinstance(instance.module, ChannelModule)
        instance.module.answer(instance.inputs(x, first.mask), first.memory)


def put(script: Script, subject: ChannelSubject, name: str) -> Found:
    """Put every exchange to a submission; where it fails, its questions count as inexact.

    Once its process is gone, nothing more is asked.
    """
    inexact: frozenset[int] = frozenset()
    float32 = False
    for exchange in script.exchanges:
        try:
            found = exchange.put_to(subject, name)
        except SubmissionFailed:
            found = Found(exchange.questions)
        inexact |= found.inexact
        float32 |= found.float32
    return Found(inexact, float32)
