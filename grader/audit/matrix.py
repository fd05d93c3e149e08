"""The judge is judged: every answer of the banks against every claim of its exercise.

The answers are the project's own and are trusted: they run without a sandbox, in processes beside
this one. Nothing is shrunk; a claim is broken by the first case on which it does not hold.
"""

import gc
import multiprocessing
import os
import resource
import sys
import time
import types
from collections import Counter
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from exercises import BY_SLUG, Exercise
from exercises.answers import Answer, AnswerKind, load_bank
from exercises.mutants import generate_mutants, load_equivalents
from grader.batch.check import check_all
from grader.sandbox.grader_side.subject import make_subject
from properties.case import Case
from properties.cases.case_set import PUBLIC_SEED
from properties.check import find_first_failure
from properties.harness.harness import Harness
from properties.property import Property, Verdict
from properties.violation import Status

BATCH_LABEL = "(all questions at once)"
MEMORY_LIMIT = 8 << 30


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """An answer and what became of it. What requires a broken claim is not tried."""

    answer: Answer
    broken: tuple[str, ...]
    not_tried: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: dict[str, float]
    """processor time by claim; that of what was asked all at once by itself"""

    @property
    def earns_nothing(self) -> bool:
        """Whether the gate holds every point back."""
        return BY_SLUG[self.answer.exercise].prerequisite.name in (*self.broken, *self.not_tried)


@dataclass(frozen=True, slots=True)
class Audit:
    """What became of all answers to some exercises."""

    exercises: tuple[Exercise, ...]
    results: tuple[AnswerResult, ...]

    @property
    def survivors(self) -> list[AnswerResult]:
        """Wrong answers that break no claim."""
        return [j for j in self.results if j.answer.is_wrong and not j.broken]

    @property
    def false_alarms(self) -> list[AnswerResult]:
        """Right answers that break a claim."""
        return [j for j in self.results if not j.answer.is_wrong and j.broken]

    def select_results(self, exercise: Exercise) -> list[AnswerResult]:
        """The answers to one exercise."""
        return [j for j in self.results if j.answer.exercise == exercise.slug]

    @property
    def properties(self) -> list[Property]:
        """The claims of all these exercises, each once."""
        return list(dict.fromkeys(p for e in self.exercises for p in e.properties))

    @property
    def kills(self) -> Counter[str]:
        """How many wrong answers break each claim."""
        return Counter(name for j in self.results if j.answer.is_wrong for name in j.broken)

    @property
    def sole_kills(self) -> Counter[str]:
        """How many wrong answers break that claim and no other."""
        wrong = (j for j in self.results if j.answer.is_wrong)
        return Counter(j.broken[0] for j in wrong if len(j.broken) == 1)

    @property
    def seconds(self) -> Counter[str]:
        """Processor time spent on each claim."""
        spent: Counter[str] = Counter()
        for judged in self.results:
            spent.update(judged.seconds)
        return spent

    @property
    def idle(self) -> list[Property]:
        """Claims that no wrong answer breaks, and that give no reason why they are there.

        A claim may earn its keep in one exercise alone, so only a full audit can tell.
        """
        banks = any(j.answer.kind is AnswerKind.WRONG for j in self.results)
        full = banks and set(self.exercises) == set(BY_SLUG.values())
        return [
            p
            for p in self.properties
            if full and not self.kills[p.name] and not p.redundant_because
        ]

    @property
    def clean(self) -> bool:
        """Whether nothing wrong passes, nothing right is accused, and no claim is idle."""
        return not (self.survivors or self.false_alarms or self.idle)


def load_answers(exercise: Exercise) -> list[Answer]:
    """The solution and the bank of an exercise."""
    title, solution = exercise.title, exercise.solution
    known = Answer(exercise.slug, AnswerKind.SOLUTION, "solution", title, solution)
    return [known, *load_bank(exercise)]


def load_mutants(exercise: Exercise) -> list[Answer]:
    """The solution with every small change, those that change nothing marked as such."""
    known = load_equivalents(exercise)
    return [
        Answer(
            exercise.slug,
            AnswerKind.EQUIVALENT if mutant.name in known else AnswerKind.MUTANT,
            mutant.name,
            known.get(mutant.name, "a small change of the solution"),
            mutant.source,
        )
        for mutant in generate_mutants(exercise)
    ]


def run_audit(exercises: Sequence[Exercise], wanted: Iterable[Answer], jobs: int) -> Audit:
    """Judge answers to these exercises, in so many processes beside this one."""
    return Audit(tuple(exercises), tuple(_check_answers(list(wanted), jobs)))


def _check_answers(wanted: Sequence[Answer], jobs: int) -> Iterable[AnswerResult]:
    # Spawned, not forked: torch has run here, and its threads would be missing in a fork.
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(jobs, mp_context=context, initializer=initialise_process) as pool:
        yield from pool.map(check_answer, wanted, chunksize=4)


def initialise_process() -> None:
    """Prepare a process for judging answers, whatever they do."""
    torch.set_num_threads(1)
    gc.freeze()
    # Some wrong answers ask for as much memory as there is.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    # What wrong answers print, and what torch says about them, is of no interest here.
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.dup2(nowhere, 2)


def check_answer(answer: Answer, seed: int = PUBLIC_SEED) -> AnswerResult:
    """Judge one answer on the cases of a seed, in this process."""
    gc.collect()  # what was judged before hangs together in circles, with all of its tensors
    exercise = BY_SLUG[answer.exercise]
    harness = Harness(make_subject(_load_namespace(answer)), exercise.contract)
    seconds: dict[str, float] = {}

    def check_timed(wanted: Property, cases: Sequence[Case]) -> Verdict:
        began = time.process_time()
        verdict = find_first_failure(wanted, harness, cases)
        seconds[wanted.name] = time.process_time() - began
        return verdict

    def restart() -> None:
        harness.subject = make_subject(_load_namespace(answer))
        harness.forget()

    began = time.process_time()
    verdicts = check_all(harness, exercise, check_timed, restart, seed)
    seconds[BATCH_LABEL] = time.process_time() - began - sum(seconds.values())
    tried = [v for v in verdicts if v.status is not Status.NOT_TRIED]
    return AnswerResult(
        answer,
        broken=tuple(v.property.name for v in tried if v.status is not Status.PASSED),
        not_tried=tuple(v.property.name for v in verdicts if v.status is Status.NOT_TRIED),
        notes=tuple(sorted({kind for kind, _ in harness.notes})),
        seconds=seconds,
    )


def _load_namespace(answer: Answer) -> dict[str, Any]:
    """The namespace of an answer, whose classes can be found by name, as copying them wants."""
    module = types.ModuleType("submission")
    sys.modules["submission"] = module
    exec(compile(answer.source, answer.name, "exec"), vars(module))
    return vars(module)
