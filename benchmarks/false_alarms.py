"""Does a right answer ever fail a claim? `python -m benchmarks.false_alarms SECONDS [FIRST_SEED]`.

The solutions and right answers of all exercises except the largest take turns. In each turn, one
answer gets cases that are generated from a new seed, as by `--search`, and every claim that holds
is tried on the cases on which the search would try it. One check of a claim on a case is an
evaluation. Answers run without a sandbox in JOBS processes (an environment variable; 1 if it is not
set). The exit code is 1 if a right answer failed a claim.
"""

import gc
import itertools
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import dataclass

from headcheck.exercises import ALL, BY_SLUG
from headcheck.exercises.answers import Answer
from headcheck.grader.audit.matrix import initialise_process, load_answers, load_subject
from headcheck.grader.grading.search import DroppingChannel, search
from headcheck.grader.grading.search_limit import SearchLimit
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.properties.check import find_first_failure
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.case import Case
from headcheck.properties.violations.violation import Status

CASES = 40
"""the number of cases in a turn"""
TURNS = 8
"""the number of turns after which a process is replaced, along with any state that answers left in
it
"""
TOO_LARGE = ("gpt2_size",)


@dataclass
class Tally:
    """The evaluations so far."""

    turns: int = 0
    cases: int = 0
    evaluations: int = 0
    accused: int = 0


def count_search(answer: Answer, seed: int) -> tuple[tuple[str, ...], int, int]:
    """Search with all checks on cases that are generated from a seed.

    Returns the names of broken properties, the number of cases, and the number of checks.
    """
    gc.collect()
    gc.freeze()  # what is left stays, and need not be looked at again
    exercise, checks = BY_SLUG[answer.exercise], 0
    channel = DroppingChannel(load_subject(answer).channel)
    harness = Harness(ChannelSubject(channel), exercise.contract)

    def check(prop: Property, case: Case) -> Verdict:
        nonlocal checks
        checks += 1
        return find_first_failure(prop, harness, [case])

    def finish_case() -> None:
        harness.forget()
        channel.drop_all()

    held = [Verdict(prop, Status.PASSED) for prop in exercise.properties]
    found = search(exercise, held, check, finish_case, SearchLimit(cases=CASES), seed=seed)
    return tuple(prop.name for prop in found.found), found.cases, checks


def list_right_answers() -> list[Answer]:
    """List the answers that must not fail any claim."""
    some = (exercise for exercise in ALL if exercise.slug not in TOO_LARGE)
    return [each for exercise in some for each in load_answers(exercise) if not each.is_wrong]


def run_turns(seconds: float, first_seed: int, jobs: int) -> Tally:
    """Let answers take turns until the time is over."""
    end, tally = time.monotonic() + seconds, Tally()
    turns = ((a, seed) for seed in itertools.count(first_seed) for a in list_right_answers())
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(
        jobs, mp_context=context, initializer=initialise_process, max_tasks_per_child=TURNS
    ) as pool:
        for answer, seed, found, cases, evaluations in _complete(pool, turns, end, jobs):
            tally.turns += 1
            tally.cases += cases
            tally.evaluations += evaluations
            tally.accused += len(found)
            for name in found:
                print(f"accused: {answer.exercise}/{answer.name}, seed {seed}: {name}", flush=True)
    return tally


def _complete(
    pool: ProcessPoolExecutor, turns: Iterator[tuple[Answer, int]], end: float, jobs: int
) -> Iterator[tuple[Answer, int, tuple[str, ...], int, int]]:
    """Yield the result of each turn, and start new turns until the time is over."""
    running: dict[Future[tuple[tuple[str, ...], int, int]], tuple[Answer, int]] = {}
    while True:
        while len(running) < 2 * jobs and time.monotonic() < end:
            turn = next(turns)
            running[pool.submit(count_search, *turn)] = turn
        if not running:
            return
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            yield *running.pop(done), *done.result()


def main() -> int:
    """Run the turns, and print their results."""
    seconds = float(sys.argv[1])
    first_seed = int(sys.argv[2]) if len(sys.argv) > 2 else 1_000
    tally = run_turns(seconds, first_seed, int(os.environ.get("JOBS", "1")))
    print(
        f"{tally.evaluations:,} evaluations on {tally.cases:,} cases, {tally.turns:,} turns of "
        f"right answers: {tally.accused} accused"
    )
    return 1 if tally.accused else 0


if __name__ == "__main__":
    sys.exit(main())
