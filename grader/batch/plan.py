"""The questions of a rehearsal as a few long messages, and the verdicts that follow from them.

The requests about a construction are those that an `Instance` makes when it is asked one question
after another, noted instead of sent. Stacked questions share a request along the batch axis.
"""

import functools
import itertools
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor

from exercises import Exercise
from grader.batch import disk_cache
from grader.batch.message import NAMELESS, Construction, Exchange, Found, Known, Script
from grader.batch.recording import Question, rehearse
from grader.batch.replay import Recollection
from grader.sandbox.grader_side.subject import ChannelModule, ChannelSubject
from grader.sandbox.wire import Message, Ready, positional
from properties.case import Case
from properties.contract import Contract, Slot, Trait
from properties.harness.harness import FLOAT32, Bench
from properties.harness.module_adapter import Instance, construct
from properties.oracle import digest
from properties.property import Group, Property, Verdict, in_order
from properties.violation import Status

LARGEST = 1 << 18
"""So many numbers go together in one message; a module of the size of GPT-2 has one of its own."""
Tensors = tuple[tuple[str, Tensor], ...]


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
    `afresh` makes it forget, and every claim is judged by itself, on modules of its own: what
    disturbs other modules fails the claim that says so, and no other. `watch` is told each as it
    comes.
    """
    plan = exercise.plan(seed, device)
    answers = answered(bench, exercise, seed, device)

    def judged(claim: Property) -> Verdict:
        if answers.keep(claim):
            return Verdict(claim, Status.PASSED, len(plan[claim]))
        return one(claim, plan[claim])

    def apart(claim: Property) -> Verdict:
        bench.forget()
        return one(claim, plan[claim])

    verdicts = _watched(in_order(plan, judged), watch)
    if any(remembers(verdict) for verdict in verdicts):
        afresh()
        verdicts = _watched(in_order(plan, apart), watch)
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


@dataclass(eq=False)
class Answers:
    """What a submission has answered to a script, and what is seen from that alone."""

    bench: Bench
    script: Script
    plan: Mapping[Property, Sequence[Case]]
    found: Found

    def keep(self, claim: Property) -> bool:
        """Whether they show that a claim holds."""
        rests = claim in self.script.asked
        return claim in self.proven or (rests and self._seen.keeps(claim, self.plan[claim]))

    @functools.cached_property
    def proven(self) -> frozenset[Property]:
        """The claims that need no judge: every answer that they rest on is the exact one."""
        return self.script.proves(self.found)

    @functools.cached_property
    def _seen(self) -> Recollection:
        """What judges may see: what was stacked, only where sequences are attended alone."""
        apart = self._recollection(alone=True)
        batch = [claim for claim in self.plan if claim.group is Group.BATCH]
        stacked = all(apart.keeps(claim, self.plan[claim]) for claim in batch)
        return self._recollection(alone=False) if stacked else apart

    def _recollection(self, *, alone: bool) -> Recollection:
        recall = functools.partial(self.script.recalled, self.found, alone=alone)
        return Recollection(self.bench, recall)


def answered(bench: Bench, exercise: Exercise, seed: int = 0, device: str = "cpu") -> Answers:
    """Put the script of an exercise to a submission."""
    contract = bench.contract
    script = script_of(exercise, contract.slots, seed, device)
    assert isinstance(bench.subject, ChannelSubject)
    found = script.put_to(bench.subject, contract.name)
    if found.float32:
        bench.note(FLOAT32)
    return Answers(bench, script, exercise.plan(seed, device), found)


def script_of(exercise: Exercise, slots: tuple[Slot, ...], seed: int, device: str) -> Script:
    """The script of an exercise, for definitions that keep their parameters in these places.

    Threads and processes that want the same one at once share it.
    """
    with _lock_of(exercise, slots, seed, device):
        return _script_of(exercise, slots, seed, device)


@functools.lru_cache(maxsize=64)
def _lock_of(*wanted: object) -> threading.Lock:
    return threading.Lock()


@functools.lru_cache(maxsize=64)
def _script_of(exercise: Exercise, slots: tuple[Slot, ...], seed: int, device: str) -> Script:
    def made() -> Script:
        contract = replace(exercise.contract, name=NAMELESS, slots=slots)
        return compiled(contract, exercise.plan(seed, device))

    key = disk_cache.key_of(exercise.slug, slots, seed, device)
    return disk_cache.shared(key, exercise.properties, made)


def compiled(contract: Contract, cases: Mapping[Property, Sequence[Case]]) -> Script:
    """Rehearse the claims, and lay out their questions construction by construction."""
    rehearsed = rehearse(contract, cases)
    numbered = list(enumerate(rehearsed.questions))
    parts = [
        _part(contract, about) for about in _grouped(numbered, functools.partial(_made, contract))
    ]
    known = tuple(
        Known(q.key, tuple(tuple(t.shape) for t in q.exact), q.alone) for q in rehearsed.questions
    )
    return Script(tuple(map(_exchange, _messages(parts))), known, rehearsed.asked)


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


@dataclass(frozen=True, eq=False)
class _Part:
    """What an exchange holds about one construction."""

    construction: Construction
    sent: list[Tensor]
    dtype: str
    device: str
    answers: list["Answer"]
    twins: list[tuple[int, int]]

    @property
    def size(self) -> int:
        """How many numbers it makes a message carry, there and back."""
        return self.construction.numbers + sum(tensor.numel() for tensor in self.sent)


def _part(contract: Contract, about: list[Numbered]) -> _Part:
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
    blocks = [block for call in calls for block in _blocks(call)]
    return _Part(
        Construction(noted.requests, tuple(_shape([a.exact for a in block]) for block in blocks)),
        noted.tensors,
        case.dtype,
        case.device.split(":")[0],
        [answer for block in blocks for answer in block],
        list(_twins([one for call in calls for one in call])),
    )


def _messages(parts: list[_Part]) -> Iterator[list[_Part]]:
    """The parts of each message: as many as go together, of one dtype."""
    waiting: list[_Part] = []
    for part in parts:
        size = sum(other.size for other in (*waiting, part))
        if waiting and (part.dtype != waiting[0].dtype or size > LARGEST):
            yield waiting
            waiting = []
        waiting.append(part)
    if waiting:
        yield waiting


def _exchange(parts: list[_Part]) -> Exchange:
    answers = [answer for part in parts for answer in part.answers]
    return Exchange(
        tuple(part.construction for part in parts),
        Ready(positional(tensor for part in parts for tensor in part.sent)),
        parts[0].dtype,
        parts[0].device,
        torch.cat([answer.exact.flatten() for answer in answers]),
        torch.cat([answer.allowed.flatten() for answer in answers]),
        torch.cat([answer.float32.flatten() for answer in answers]),
        torch.cat([torch.full((answer.exact.numel(),), answer.number) for answer in answers]),
        tuple(pair for part in parts for pair in part.twins),
    )


@dataclass(frozen=True, eq=False)
class Answer:
    """A part of the exact answer to a question, and how far what comes back may be off."""

    number: int
    exact: Tensor
    allowed: Tensor
    float32: Tensor


def _blocks(call: list[Numbered]) -> Iterator[list[Answer]]:
    """For each output of a call: whose part is what, exactly, and how far it may be off."""
    for k in range(len(call[0][1].exact)):
        block = []
        for number, question in call:
            exact, allowed = question.exact[k], question.allowed[k]
            wide = (allowed.exact.expand_as(exact), allowed.float32.expand_as(exact))
            block.append(Answer(number, exact.detach(), *wide))
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

    def request(self, op: str, meta: Mapping[str, Any], tensors: Tensors = ()) -> Message:
        """Note it. Objects are known by the order in which the series makes them."""
        names = [name for name, _ in tensors]
        self.requests.append({"op": op, "meta": dict(meta), "tensors": names})
        self.tensors.extend(tensor for _, tensor in tensors)
        if op not in ("construct", "function"):
            return Message(0, "ok")
        self.made += 1
        return Message(0, "ok", {"handle": self.made - 1})

    def ask(self, instance: Instance, questions: Sequence[Question]) -> None:
        """Note one call that answers these questions side by side."""
        first = questions[0]
        if first.cotangent is not None:
            instance.vjp(first.x, first.cotangent, first.mask)
            return
        x = torch.cat([question.x for question in questions]) if len(questions) > 1 else first.x
        assert isinstance(instance.module, ChannelModule)
        instance.module.answer(instance.inputs(x, first.mask), first.memory)
