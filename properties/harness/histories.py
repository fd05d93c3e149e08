"""What happens to a module before it is asked, as data; and that none of it changes an answer.

Theory
------
Attention is a function of its weights and of what it is called with. So a module answers in the
same way whatever was done before: calls of other lengths, gradients, a call that raised, other
modules of other sizes, copies, weights loaded and loaded back.

A history is a sequence of steps (`properties/harness/steps.py`), each a small frozen value that
says in words what is done. After every step the module is probed: it is called for the case's own
input, for a single token, for gradients, or in training with seeded random numbers. Each answer is
compared with the one that a module gave to which nothing had happened: the submission's own, so
that a wrong scale does not also fail a claim about histories.

The order of the steps is drawn from the case's seed: within a run everybody gets the same
histories. When a probe goes wrong, shorter histories are tried that end in the same probe, single
steps first and the latest ones before others. The first that goes wrong is what the student reads.
Where even a new module answers otherwise, what was done is kept outside of any module; no shorter
history could be trusted then, and all of it is told.
"""

import itertools
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from properties.harness.harness import Trial
from properties.harness.module_adapter import Instance
from properties.harness.steps import SEED, Scene, Step, attempt, unharmed
from properties.oracle import ExactGradients
from properties.subject import How
from properties.tolerance import Allowed
from properties.violation import Status, SubmissionFailed, Violation

ATTEMPTS = 60
"""So many shorter histories are tried when one goes wrong."""
LARGE = 8
"""times the tokens: the scores, 64 times as large, show what is clamped or shifted"""
Trouble = Violation | SubmissionFailed


@dataclass(frozen=True)
class Probe:
    """A question whose answer no history may change. As a step, it is one call more."""

    words: str
    ask: Callable[[Trial, Instance], Mapping[str, Tensor]]
    allow: Callable[[Trial], Mapping[str, Allowed]]

    def before(self, trial: Trial) -> Mapping[str, Tensor]:
        """What a module answers to which nothing has happened."""
        return self.ask(trial, unharmed(trial))

    def check(self, trial: Trial, instance: Instance) -> None:
        """Raises Violation unless the answer is the same as before."""
        before, limits = trial.once(self.before), trial.once(self.allow)
        for name, got in self.ask(trial, instance).items():
            trial.must_stay(got, before[name], limits[name], name)

    def take(self, scene: Scene) -> None:
        self.ask(scene.trial, scene.instance)

    def __str__(self) -> str:
        return self.words


def _outputs(trial: Trial, instance: Instance) -> dict[str, Tensor]:
    return dict(zip(trial.names, trial.run(how=How(), instance=instance), strict=True))


def _output_limits(trial: Trial) -> dict[str, Allowed]:
    return dict(zip(trial.names, trial.expected.allowed, strict=True))


def _one_token(trial: Trial, instance: Instance) -> dict[str, Tensor]:
    x, mask = _first_token(trial)
    return {"output for one token": trial.run(x, mask=mask, how=How(), instance=instance)[0]}


def _one_token_limits(trial: Trial) -> dict[str, Allowed]:
    x, mask = _first_token(trial)
    return {"output for one token": trial.expect(x, mask=mask).allowed[0]}


def _first_token(trial: Trial) -> tuple[Tensor, Tensor | None]:
    mask = None if trial.mask is None else torch.ones_like(trial.mask[..., :1, :1])
    return trial.x[:, :1], mask


def _large(trial: Trial, instance: Instance) -> dict[str, Tensor]:
    x = trial.x * LARGE
    return {"output for large tokens": trial.run(x, how=How(), instance=instance)[0]}


def _large_limits(trial: Trial) -> dict[str, Allowed]:
    return {"output for large tokens": trial.expect(trial.x * LARGE).allowed[0]}


def _in_training(trial: Trial, instance: Instance) -> dict[str, Tensor]:
    how = How(training=True, seed=SEED)
    return {"output in training": trial.run(how=how, instance=instance)[0]}


def _training_limits(trial: Trial) -> dict[str, Allowed]:
    # What is kept is multiplied by 1/(1 - rate), and its errors with it.
    factor = 1 / (1 - trial.case.dropout)
    limit = trial.expected.allowed[0]
    return {"output in training": Allowed(factor * limit.exact, factor * limit.float32)}


def _gradients(trial: Trial, instance: Instance) -> dict[str, Tensor]:
    instance.set(trial.parameters)
    found = instance.vjp(trial.x, trial.cotangent, trial.mask)
    nothing = torch.zeros(())
    return {
        f"gradient of {name}": (nothing if grad is None else grad).double()
        for name, grad in found.items()
        if name in trial.once(_exact).scales
    }


def _exact(trial: Trial) -> ExactGradients:
    return trial.exact_gradients(trial.cotangent)


def _gradient_limits(trial: Trial) -> dict[str, Allowed]:
    exact = trial.once(_exact)
    return {f"gradient of {name}": exact.allowed(name) for name in exact.scales}


WHOLE = Probe("a call", _outputs, _output_limits)
ONE_TOKEN = Probe("a call with one token", _one_token, _one_token_limits)
LARGE_TOKENS = Probe("a call with large tokens", _large, _large_limits)
IN_TRAINING = Probe("a call in training", _in_training, _training_limits)
GRADIENTS = Probe("a backward pass", _gradients, _gradient_limits)


def in_some_order(trial: Trial, steps: Sequence[Step], most: int | None = None) -> list[Step]:
    """The steps, or `most` of them, in an order that depends on the case's seed alone."""
    return random.Random(trial.case.seed).sample(steps, len(steps) if most is None else most)


def must_change_nothing(trial: Trial, steps: Sequence[Step], probes: Sequence[Probe]) -> None:
    """Probe a module after each of these steps, taking one probe after the other.

    Raises Violation or SubmissionFailed, with the shortest history found, where an answer is not
    that of a module to which nothing has happened.
    """
    for probe in probes:
        trial.once(probe.before), trial.once(probe.allow)  # before anything happens
    scene = Scene(trial, unharmed(trial))
    past: list[Step] = []
    for step, probe in zip(steps, itertools.cycle(probes), strict=False):
        attempt(step, scene)
        past.append(step)
        trouble = _trouble(scene, probe)
        if trouble is not None:
            raise _shortest(trial, past, probe, trouble)
        past.append(probe)


def _trouble(scene: Scene, probe: Probe) -> Trouble | None:
    """What is wrong with the answer to a probe, if anything is."""
    scene.instance.set(scene.trial.parameters)
    try:
        probe.check(scene.trial, scene.instance)
    except Violation as found:
        return found
    except SubmissionFailed as failure:
        if failure.status is not Status.CRASHED:
            raise
        return failure
    return None


def _shortest(trial: Trial, past: Sequence[Step], probe: Probe, trouble: Trouble) -> Trouble:
    """The trouble with as short a history as is found to lead to it."""
    if _after(trial, (), probe) is None:
        for few in itertools.islice(_shorter(past), ATTEMPTS):
            again = _after(trial, few, probe)
            if again is not None:
                return _told(again, few)
    return _told(trouble, past)


def _shorter(past: Sequence[Step]) -> Iterator[tuple[Step, ...]]:
    """Single steps of a history and then pairs of them, the latest first."""
    latest = past[::-1]
    yield from ((step,) for step in latest)
    yield from ((first, second) for second, first in itertools.combinations(latest, 2))


def _after(trial: Trial, history: Sequence[Step], probe: Probe) -> Trouble | None:
    """What is wrong with the answer to a probe after this history, if anything is."""
    scene = Scene(trial, unharmed(trial))
    for step in history:
        attempt(step, scene)
    return _trouble(scene, probe)


def _told(trouble: Trouble, history: Sequence[Step]) -> Trouble:
    trouble.after = "; ".join(map(str, history))
    return trouble
