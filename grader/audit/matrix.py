"""The audit: check every answer of the answer banks against every property of its exercise.

The answers are the project's own and trusted: they run without a sandbox, in child processes.
Counterexamples are not shrunk: the first case on which a property does not hold is enough.
"""

import functools
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

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.exercises.answers import Answer, AnswerKind, BadBank, load_bank
from headcheck.grader.audit.mutants import generate_mutants, load_equivalents
from headcheck.grader.grading.attempts import check_all
from headcheck.grader.grading.search import DroppingChannel, SearchResult, search
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject, make_subject
from headcheck.properties.cases.case_set import PUBLIC_SEED
from headcheck.properties.check import find_first_failure
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import NOT_FAILED, UNKNOWN, Status

BATCH_LABEL = "(all questions at once)"
# Not forked from this process: torch has run here, and its threads would be missing in a fork.
# They are forked from one that has imported torch, which takes seconds, and has not run it.
CONTEXT = multiprocessing.get_context("forkserver")
CONTEXT.set_forkserver_preload([__name__])
MEMORY_LIMIT = 8 << 30
SLOW_CHECK_S, MAX_SLOW_CHECKS = 2.0, 3
"""a search ends after `MAX_SLOW_CHECKS` checks that each took longer than `SLOW_CHECK_S` seconds"""


@dataclass(frozen=True, slots=True)
class AnswerResult:
    """An answer and the properties it breaks; properties that depend on these are not tried."""

    answer: Answer
    broken: tuple[str, ...]
    not_tried: tuple[str, ...]
    notes: tuple[str, ...]
    seconds: dict[str, float]
    """processor time by property; batched queries count under `BATCH_LABEL`"""
    found: tuple[str, ...] = ()
    """the properties that hold on the fixed cases but fail on generated cases"""
    generated: int = 0
    """how many generated cases the search tried"""


@dataclass(frozen=True, slots=True)
class Audit:
    """The results of all answers to some exercises."""

    exercises: tuple[Exercise, ...]
    results: tuple[AnswerResult, ...]

    @property
    def survivors(self) -> list[AnswerResult]:
        """The wrong answers that break no property."""
        return [r for r in self.results if r.answer.is_wrong and not r.broken]

    @property
    def false_alarms(self) -> list[AnswerResult]:
        """The right answers that break a property, on the fixed cases or in the search."""
        return [r for r in self.results if not r.answer.is_wrong and (r.broken or r.found)]

    def select_results(self, exercise: Exercise) -> list[AnswerResult]:
        """Return the results of the answers to one exercise."""
        return [r for r in self.results if r.answer.exercise == exercise.slug]

    @property
    def properties(self) -> list[Property]:
        """The properties of all these exercises, without duplicates."""
        return list(dict.fromkeys(p for e in self.exercises for p in e.properties))

    @property
    def kills(self) -> Counter[str]:
        """The number of wrong answers that break each property."""
        return Counter(name for r in self.results if r.answer.is_wrong for name in r.broken)

    @property
    def search_kills(self) -> Counter[str]:
        """The number of wrong answers on which only the search breaks each property."""
        return Counter(name for r in self.results if r.answer.is_wrong for name in r.found)

    @property
    def sole_kills(self) -> Counter[str]:
        """For each property, the number of wrong answers that break this property and no other."""
        wrong = (r for r in self.results if r.answer.is_wrong)
        return Counter(r.broken[0] for r in wrong if len(r.broken) == 1)

    @property
    def seconds(self) -> Counter[str]:
        """The processor time spent on each property."""
        total: Counter[str] = Counter()
        for result in self.results:
            total.update(result.seconds)
        return total

    @property
    def idle(self) -> list[Property]:
        """Properties that no wrong answer breaks and that are not marked as redundant.

        A property may fail in only one exercise, so only a full audit can find idle ones.
        """
        banks = any(r.answer.kind is AnswerKind.WRONG for r in self.results)
        full = banks and set(self.exercises) == set(BY_SLUG.values())
        return [
            p
            for p in self.properties
            if full and not self.kills[p.name] and not p.redundant_because
        ]

    @property
    def clean(self) -> bool:
        """Whether there are no survivors, no false alarms and no idle properties."""
        return not (self.survivors or self.false_alarms or self.idle)


def load_answers(exercise: Exercise) -> list[Answer]:
    """Load the solution and the answer bank of an exercise."""
    title, solution = exercise.title, exercise.solution
    known = Answer(exercise.slug, AnswerKind.SOLUTION, "solution", title, solution)
    return [known, *load_bank(exercise)]


def load_mutants(exercise: Exercise) -> list[Answer]:
    """Generate the mutants of the solution, with equivalent mutants marked as such."""
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


def run_audit(
    exercises: Sequence[Exercise],
    answers: Iterable[Answer],
    jobs: int,
    limit: SearchLimit | None = None,
) -> Audit:
    """Check answers to these exercises in `jobs` child processes; search if `limit` is set."""
    with ProcessPoolExecutor(jobs, mp_context=CONTEXT, initializer=initialise_process) as pool:
        check = functools.partial(check_answer, limit=limit)
        by_slug, todo = {each.slug: each for each in exercises}, list(answers)
        asked = [by_slug[answer.exercise] for answer in todo]
        return Audit(tuple(exercises), tuple(pool.map(check, todo, asked, chunksize=4)))


def initialise_process() -> None:
    """Prepare a process for checking answers, whatever the answers do."""
    torch.set_num_threads(1)
    gc.freeze()
    # Some wrong answers allocate all memory that they can get.
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY_LIMIT, MEMORY_LIMIT))
    # Output of wrong answers, and the warnings of torch about them, are discarded.
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)


def check_answer(
    answer: Answer, exercise: Exercise, seed: int = PUBLIC_SEED, limit: SearchLimit | None = None
) -> AnswerResult:
    """Check one answer to an exercise in this process, on the cases for a seed."""
    gc.collect()  # reference cycles keep the tensors of earlier answers alive
    gc.freeze()  # what is left stays, and need not be looked at again after this answer
    harness = Harness(load_subject(answer), exercise.contract)
    seconds: dict[str, float] = {}

    def check_timed(prop: Property, cases: Sequence[Case]) -> Verdict:
        start = time.process_time()
        verdict = find_first_failure(prop, harness, cases)
        seconds[prop.name] = time.process_time() - start
        return verdict

    def restart() -> None:
        harness.subject = load_subject(answer)
        harness.forget()

    start = time.process_time()
    verdicts = check_all(harness, exercise, check_timed, restart, seed)
    seconds[BATCH_LABEL] = time.process_time() - start - sum(seconds.values())
    searched = SearchResult() if limit is None else _search(answer, exercise, verdicts, seed, limit)
    return AnswerResult(
        answer,
        broken=tuple(v.property.name for v in verdicts if v.status not in NOT_FAILED),
        not_tried=tuple(v.property.name for v in verdicts if v.status in UNKNOWN),
        notes=tuple(sorted({kind for kind, _ in harness.notes})),
        seconds=seconds,
        found=tuple(prop.name for prop in searched.found),
        generated=searched.cases,
    )


def _search(
    answer: Answer,
    exercise: Exercise,
    verdicts: Sequence[Verdict],
    seed: int,
    limit: SearchLimit,
) -> SearchResult:
    slow = 0
    channel = DroppingChannel(load_subject(answer).channel)
    harness = Harness(ChannelSubject(channel), exercise.contract)

    def check(prop: Property, case: Case) -> Verdict:
        nonlocal slow
        start = time.process_time()
        verdict = find_first_failure(prop, harness, [case])
        slow += time.process_time() - start > SLOW_CHECK_S
        # Nothing limits a call here; in a sandbox it would have ended the search.
        return verdict if slow < MAX_SLOW_CHECKS else Verdict(prop, Status.TIMED_OUT)

    def finish_case() -> None:
        harness.forget()
        channel.drop_all()

    return search(exercise, verdicts, check, finish_case, limit, seed=seed)


def load_subject(answer: Answer) -> ChannelSubject:
    """Execute an answer in this process; raises BadBank as `load_namespace` does."""
    return make_subject(load_namespace(answer), answer.source)


def load_namespace(answer: Answer) -> dict[str, Any]:
    """Execute an answer in a module of its own, so that `copy` and `pickle` find its classes.

    Raises BadBank if the answer cannot be executed, because nothing can be checked then.
    """
    module = types.ModuleType("submission")
    sys.modules["submission"] = module
    try:
        exec(compile(answer.source, answer.name, "exec"), vars(module))
    except Exception as error:
        what = f"{type(error).__name__}: {error}".partition("\n")[0]
        raise BadBank(f"{answer.exercise}/{answer.name} cannot be run: {what}") from error
    return vars(module)
