"""The steps of a history: what can be done to a module, and beside it, before it is asked again.

Each is a frozen value; `str()` says what it does, as a student reads it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Protocol

import torch
from torch import Tensor

from properties.case import Case, Content, MaskForm, Memory
from properties.cases.case_tensors import mask_of, parameters_of, tokens_of
from properties.contract import Contract, Trait
from properties.harness.harness import Trial
from properties.harness.module_adapter import Instance, construct
from properties.subject import How
from properties.violation import Status, SubmissionFailed
from reference import Parameters

SEED = 1
"""of the random numbers of a call in training: the same weights are dropped each time"""
TRAINING = How(training=True, seed=SEED)
RECORDING = How(grad="grad")
MANY = 32
"""So many calls are many: a counter or a running statistic shows by then."""


def for_histories(case: Case) -> Case:
    """One small case whose sizes all differ, so that none can stand in for another.

    In float32: moving a module to float64 and back then loses nothing.
    """
    return replace(
        case,
        batch=2,
        tokens=4,
        context_length=6,
        d_in=5,
        heads=2,
        head_dim=3,
        dropout=0.5,
        sharpness=2,
        content=Content.NORMAL,
        memory=Memory.CONTIGUOUS,
        mask_form=MaskForm.QUERY_KEY,
        dtype="float32",
    )


@dataclass(eq=False)
class Scene:
    """The module that is probed, and everything made beside it, which stays alive."""

    trial: Trial
    instance: Instance
    others: list[Instance] = field(default_factory=list)


class Step(Protocol):
    """Something that is done before a module is asked."""

    def take(self, scene: Scene) -> None:
        """Do it. Raises SubmissionFailed when the submission's code goes wrong."""


def attempt(step: Step, scene: Scene) -> None:
    """Take a step. That it does not work is no matter of histories: other claims say so."""
    try:
        step.take(scene)
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise


def unharmed(trial: Trial) -> Instance:
    """A new module with the case's own weights."""
    instance = construct(trial.bench.subject, trial.contract, trial.case)
    instance.set(trial.parameters)
    return instance


@dataclass(frozen=True)
class Call:
    """The module is called with other tokens."""

    tokens: int
    batch: int
    how: How = How()  # noqa: RUF009  # it is frozen
    masked: bool = True

    def take(self, scene: Scene) -> None:
        x, mask = _other_tokens(scene.trial, self.tokens, self.batch)
        scene.instance.forward(x, mask if self.masked else None, self.how)

    def __str__(self) -> str:
        mode = " in training" if self.how.training else ""
        if self.how.times > 1:
            return f"{self.how.times} calls{mode} with {_sizes(self.tokens, self.batch)}"
        more = ", no mask" * (not self.masked) + ", recording gradients" * (self.how == RECORDING)
        return f"a call{mode} with {_sizes(self.tokens, self.batch)}{more}"


@dataclass(frozen=True)
class RefusedCall:
    """The module is called with tokens that are too wide for it, so that it raises."""

    how: How = How()  # noqa: RUF009  # it is frozen

    def take(self, scene: Scene) -> None:
        trial = scene.trial
        scene.instance.forward(torch.cat([trial.x, trial.x], dim=-1), trial.mask, self.how)

    def __str__(self) -> str:
        mode = " in training" if self.how.training else ""
        return f"a call{mode} with tokens that are too wide, which raises"


@dataclass(frozen=True)
class Backward:
    """Gradients are computed for other tokens."""

    tokens: int
    batch: int

    def take(self, scene: Scene) -> None:
        x, mask = _other_tokens(scene.trial, self.tokens, self.batch)
        cotangent = torch.ones(scene.trial.shapes(x)[0], dtype=torch.float64)
        scene.instance.vjp(x, cotangent, mask)

    def __str__(self) -> str:
        return f"a backward pass with {_sizes(self.tokens, self.batch)}"


@dataclass(frozen=True)
class Build:
    """Another module is built and called."""

    case: Case
    unlike: str
    """its arguments that differ, in words"""

    def take(self, scene: Scene) -> None:
        trial = scene.trial
        other = construct(trial.bench.subject, trial.contract, self.case)
        scene.others.append(other)
        other.set(parameters_of(self.case, trial.contract))
        _call_both_ways(other, tokens_of(self.case, trial.contract), mask_of(self.case))

    def __str__(self) -> str:
        return f"another module, with {self.unlike}, is built and called"


@dataclass(frozen=True)
class Rebuild:
    """The module itself is built again, after the others."""

    def take(self, scene: Scene) -> None:
        scene.others.append(scene.instance)
        scene.instance = unharmed(scene.trial)

    def __str__(self) -> str:
        return "this module is built after it"


@dataclass(frozen=True)
class Load:
    """Other weights are loaded into the module, and then its own again."""

    def take(self, scene: Scene) -> None:
        trial, instance = scene.trial, scene.instance
        instance.load(_other_parameters(trial))
        instance.forward(trial.x, trial.mask, How())
        instance.load(trial.parameters)

    def __str__(self) -> str:
        return "load_state_dict() with other weights, a call, load_state_dict() with the old ones"


@dataclass(frozen=True)
class Move:
    """A new module is first called in float64, and moved to its dtype then."""

    def take(self, scene: Scene) -> None:
        trial = scene.trial
        scene.others.append(scene.instance)
        scene.instance = instance = unharmed(trial)
        instance.module.move("float64", None)
        try:
            moved = replace(instance, case=replace(trial.case, dtype="float64"))
            moved.forward(trial.x, trial.mask, How())
        finally:
            instance.module.move(trial.case.dtype, None)

    def __str__(self) -> str:
        return "the module is built, called in float64 first, and moved to float32 then"


@dataclass(frozen=True)
class Copy:
    """A copy of the module gets other weights and is called."""

    way: str

    def take(self, scene: Scene) -> None:
        trial = scene.trial
        copy = scene.instance.copy(self.way)
        scene.others.append(copy)
        copy.set(_other_parameters(trial))
        _call_both_ways(copy, trial.x, trial.mask)

    def __str__(self) -> str:
        made = {"deepcopy": "a deep copy", "state_dict": "a copy by its state_dict"}[self.way]
        return f"{made} gets other weights and is called"


def calls(trial: Trial) -> list[Step]:
    """Calls of other lengths and batches, in training and with gradients, and one that raises."""
    t, b = trial.case.tokens, trial.case.batch
    longest = min(trial.case.context_length, t + 2) if trial.contract.has(Trait.CONTEXT) else t + 2
    more = b + 1 if trial.contract.has(Trait.BATCH) else b
    steps: list[Step] = [
        *(Call(tokens, b) for tokens in sorted({1, t - 1, t, longest})),
        Call(t, more),
        Call(t - 1, b, TRAINING),
        Call(t, b, RECORDING),
        Backward(t - 1, b),
        Call(1, 1, How(times=MANY)),
    ]
    if trial.contract.has(Trait.MODULE):
        steps.append(RefusedCall())
    if trial.contract.has(Trait.MASK):
        steps.append(Call(t, b, masked=False))
    return steps


def evaluations(trial: Trial) -> list[Step]:
    """What happens between two calls in training."""
    t, b = trial.case.tokens, trial.case.batch
    return [
        Call(t, b),
        Call(1, b),
        Call(t - 1, b, TRAINING),
        Backward(t, b),
        RefusedCall(TRAINING),
        Call(1, 1, replace(TRAINING, times=MANY)),
    ]


def others(trial: Trial) -> list[Step]:
    """Other modules: the same arguments once more, and each of them changed by itself."""
    case, contract = trial.case, trial.contract
    changes: tuple[Mapping[str, object], ...] = (
        {},
        {"heads": case.heads + 1},
        {"heads": 1},
        {"head_dim": case.head_dim + 1},
        {"d_in": case.d_in + 2},
        {"context_length": case.context_length + 2},
        {"context_length": 2, "tokens": 2},
        {"dropout": 0.1},
        {"bias": not case.bias},
    )
    seeded = replace(case, seed=case.seed + 1)
    there = dict.fromkeys(contract.fit(replace(seeded, **each)) for each in changes)  # type: ignore[arg-type]  # as the fields
    return [Build(other, _unlike(contract, case, other)) for other in there]


def transfers(trial: Trial) -> list[Step]:
    """Loading, moving, copying."""
    return [Load(), Move(), Copy("deepcopy"), Copy("state_dict")]


def _unlike(contract: Contract, case: Case, other: Case) -> str:
    """The constructor's arguments that differ between two cases."""
    mine = dict(_flat(contract.arguments_for(case)))
    theirs = dict(_flat(contract.arguments_for(other)))
    names = dict.fromkeys([*mine, *theirs])
    changed = [
        f"{n}={theirs[n]}" if n in theirs else f"no {n}"
        for n in names
        if mine.get(n) != theirs.get(n)
    ]
    return ", ".join(changed) or "the same arguments"


def _flat(arguments: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """Arguments by name, those in a config among them."""
    for name, value in arguments.items():
        yield from value.items() if isinstance(value, Mapping) else [(name, value)]


def _call_both_ways(instance: Instance, x: Tensor, mask: Tensor | None) -> None:
    for how in (How(), TRAINING):
        instance.forward(x, mask, how)


def _other_tokens(trial: Trial, tokens: int, batch: int) -> tuple[Tensor, Tensor | None]:
    """So many other tokens, and a mask that fits them."""
    case = replace(trial.case, tokens=tokens, batch=batch)
    return tokens_of(case, trial.contract, "x2"), mask_of(case)


def _other_parameters(trial: Trial) -> Parameters:
    return parameters_of(replace(trial.case, seed=trial.case.seed + 1), trial.contract)


def _sizes(tokens: int, batch: int) -> str:
    counted = "1 token" if tokens == 1 else f"{tokens} tokens"
    return f"{counted}, batch {batch}"
