"""Is a right answer ever accused? `python -m benchmarks.false_alarms SECONDS [FIRST_SEED]`.

The solutions and right answers of all exercises but the largest take turns: in each turn, one gets
generated cases from a seed of its own, as by `--search`, and every claim that holds is tried on
those that it is tried on there. One check of a claim on a case is an evaluation. JOBS processes (an
environment variable; 1 if it is not set), without a sandbox. Ends with 1 where one was accused.
"""

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
from headcheck.grader.audit.matrix import count_search, initialise_process, load_answers

CASES = 40
"""in a turn"""
TURNS = 8
"""of a process: then it is replaced, with all that answers left in it"""
TOO_LARGE = ("gpt2_size",)


@dataclass
class Tally:
    """What was tried so far."""

    turns: int = 0
    cases: int = 0
    evaluations: int = 0
    accused: int = 0


def list_right_answers() -> list[Answer]:
    """List the answers that no claim may accuse."""
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
    """Yield what each turn gave, and start others until the end."""
    running: dict[Future[tuple[tuple[str, ...], int, int]], tuple[Answer, int]] = {}
    while True:
        while len(running) < 2 * jobs and time.monotonic() < end:
            turn = next(turns)
            answer, seed = turn
            exercise = BY_SLUG[answer.exercise]
            running[pool.submit(count_search, answer, exercise, seed, CASES)] = turn
        if not running:
            return
        for done in wait(running, return_when=FIRST_COMPLETED).done:
            yield *running.pop(done), *done.result()


def main() -> int:
    """Take turns, and say what came of them."""
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
