"""Does a student's check agree with the grade? `python -m benchmarks.agreement [SEEDS [NAME ...]]`.

Every answer in the answer banks is judged on the public cases, as by `check`, and on the cases of
SEEDS secret seeds (20 by default), as by `grade`. A NAME is an exercise, or an exercise and a kind
of answers: `causal_attention/right`. Prints which claims get another verdict under a secret seed,
and how many points this changes. Answers run without a sandbox in JOBS other processes (an
environment variable; 1 if it is not set). The exit code is 1 if a right answer failed a claim.
"""

import multiprocessing
import os
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from functools import partial

from headcheck.exercises import ALL, BY_SLUG
from headcheck.exercises.answers import Answer
from headcheck.grader.audit.matrix import (
    AnswerResult,
    check_answer,
    initialise_process,
    load_answers,
)
from headcheck.grader.report import points
from headcheck.grader.seed import draw_secret_seed

SEEDS = 20


@dataclass(frozen=True, slots=True)
class SeedComparison:
    """One answer, judged on the public cases and on those of secret seeds."""

    public: AnswerResult
    others: tuple[AnswerResult, ...]
    seconds: float

    @property
    def changed(self) -> Counter[str]:
        """The number of seeds under which each claim got another verdict."""
        return Counter(
            name
            for other in self.others
            for name in set(find_lost_claims(other)) ^ set(find_lost_claims(self.public))
        )

    @property
    def scores(self) -> tuple[float, ...]:
        """The answer's scores, on the public cases first and then under each seed."""
        return tuple(compute_score(each) for each in (self.public, *self.others))

    @property
    def states(self) -> set[bool]:
        """Whether the answer passed; two values if that depends on the seed."""
        return {not find_lost_claims(each) for each in (self.public, *self.others)}


def find_lost_claims(judged: AnswerResult) -> tuple[str, ...]:
    """The claims that did not earn their own points."""
    return (*judged.broken, *judged.not_tried)


def compute_score(judged: AnswerResult) -> float:
    """The points, as in `grader.report.points`."""
    exercise, lost_names = BY_SLUG[judged.answer.exercise], find_lost_claims(judged)
    if exercise.prerequisite.name in lost_names:
        return 0.0
    worth = points.distribute_points(exercise, None)
    lost = {claim for claim in worth if claim.name in lost_names}
    worthless = {claim.group for claim in lost if claim.essential}
    earned = (p for c, p in worth.items() if c not in lost and c.group not in worthless)
    return round(sum(earned), 2)


def compare_seeds(answer: Answer, seeds: Sequence[int]) -> SeedComparison:
    """Judge an answer under the public seed and under these seeds."""
    began, exercise = time.process_time(), BY_SLUG[answer.exercise]
    others = tuple(check_answer(answer, exercise, seed) for seed in seeds)
    return SeedComparison(check_answer(answer, exercise), others, time.process_time() - began)


def main() -> int:
    """Compare all answers, and print the differences."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SEEDS
    named = sys.argv[2:] or [exercise.slug for exercise in ALL]
    seeds = tuple(draw_secret_seed().value for _ in range(count))
    wanted = [answer for name in named for answer in _select_answers(*name.split("/"))]
    spawned = multiprocessing.get_context("spawn")
    print(f"{len(wanted)} answers, {count} seeds: {seeds}", flush=True)
    found = []
    with ProcessPoolExecutor(
        int(os.environ.get("JOBS", "1")), mp_context=spawned, initializer=initialise_process
    ) as pool:
        for each in pool.map(partial(compare_seeds, seeds=seeds), wanted):
            found.append(each)
            _print_difference(each)
            print(f"{len(found)} of {len(wanted)}", file=sys.stderr, flush=True)
    return _summarise(found)


def _select_answers(slug: str, kind: str = "") -> list[Answer]:
    return [answer for answer in load_answers(BY_SLUG[slug]) if kind in ("", answer.kind)]


def _print_difference(each: SeedComparison) -> None:
    """Print the differences for one answer."""
    answer = each.public.answer
    if each.changed:
        listed = ", ".join(f"{name} ({times})" for name, times in each.changed.items())
        low, high = min(each.scores), max(each.scores)
        print(
            f"{answer.exercise}/{answer.kind}/{answer.name}: public {each.scores[0]:g}, "
            f"others {low:g} to {high:g}: {listed}",
            flush=True,
        )


def _summarise(found: Sequence[SeedComparison]) -> int:
    right = [each for each in found if not each.public.answer.is_wrong]
    wrong = [each for each in found if each.public.answer.is_wrong]
    accused = [each for each in right if each.states != {True}]
    for label, group in (("right", right), ("wrong", wrong)):
        status = sum(len(each.states) > 1 for each in group)
        score_ = sum(len(set(each.scores)) > 1 for each in group)
        claims = sum(bool(each.changed) for each in group)
        print(f"{label}: {len(group)}; other status {status}, points {score_}, claims {claims}")
    print(f"{sum(each.seconds for each in found):.0f} s of processor time")
    return 1 if accused else 0


if __name__ == "__main__":
    sys.exit(main())
