"""How much time a second worker saves: `python -m benchmarks.cluster [SUBMISSIONS [ROUNDS]]`.

Starts two Dask clusters on this machine, one with a single worker and one with two; every worker
has one thread, a fork server and a jail of its own. Both grade the same class in turn, and their
results must be the same. Before that they grade a small class, so that the time to start servers is
not measured. Prints the medians of the seconds from handing over the class to its last record.
Needs the extra `cluster`.
"""

import os
import random
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import replace
from pathlib import Path

from benchmarks.kills import cycle_answers
from benchmarks.spending import ROOT
from headcheck.exercises import BY_SLUG
from headcheck.grader.course.cluster import Cluster
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.worker_pool import grade_all
from headcheck.grader.reading.submission import Submission, find_submissions
from headcheck.grader.report.records import SubmissionRecord

SUBMISSIONS, ROUNDS = 100, 3
START_S = 120.0
EXERCISE = BY_SLUG["multi_head_attention"]


def main() -> None:
    """Measure and print."""
    given = [int(argument) for argument in sys.argv[1:]]
    count, rounds = [*given, *(SUBMISSIONS, ROUNDS)[len(given) :]]
    with tempfile.TemporaryDirectory() as scratch, ExitStack() as stack:
        few, many = (
            write_class(Path(scratch, name), n) for name, n in (("few", 8), ("many", count))
        )
        clusters = [
            stack.enter_context(start_cluster(Path(scratch), workers)) for workers in (1, 2)
        ]
        for cluster in clusters:
            grade_class(cluster, few)
        took: list[list[float]] = [[], []]
        said = []
        for _ in range(rounds):
            for cluster, seconds in zip(clusters, took, strict=True):
                began = time.monotonic()
                said.append(grade_class(cluster, many))
                seconds.append(time.monotonic() - began)
    one, two = map(statistics.median, took)
    print(
        f"{count} submissions: {one:.1f} s by one worker, {two:.1f} s by two: {one / two:.2f} times"
    )
    print("the verdicts are the same" if all(each == said[0] for each in said) else "NOT the same")


def write_class(folder: Path, count: int) -> list[Submission]:
    """Right and wrong answers in turn."""
    folder.mkdir()
    kinds = [cycle_answers(kind, random.Random(0)) for kind in ("right", "wrong")]
    for i in range(count):
        (folder / f"student{i:04}.py").write_text(f"{next(kinds[i % 2])}\n# {i}\n", "utf-8")
    return find_submissions([str(folder)])


def grade_class(cluster: Cluster, found: Sequence[Submission]) -> list[list[SubmissionRecord]]:
    """Return the records of all submissions without their times."""
    run = grade_all(cluster, found, Settings(exercise=EXERCISE))
    return [[replace(record, seconds=0.0) for record in records] for _, records in run]


@contextmanager
def start_cluster(folder: Path, workers: int) -> Iterator[Cluster]:
    """Start a scheduler with this many workers."""
    scheduler_file = folder / f"scheduler{workers}.json"
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1"}

    def started(role: str, *options: str) -> subprocess.Popen[bytes]:
        words = [sys.executable, "-m", f"distributed.cli.dask_{role}", "--no-dashboard", *options]
        with (folder / f"{role}{workers}.log").open("wb") as log:
            return subprocess.Popen(
                [*words, "--scheduler-file", str(scheduler_file)],
                env=environment,
                cwd=folder,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )

    scheduler = started("scheduler", "--host", "127.0.0.1", "--port", "0", "--no-show")
    those = started("worker", "--nworkers", str(workers), "--nthreads", "1")
    try:
        with Cluster(wait_for_address(scheduler_file, workers), trusted=False) as cluster:
            yield cluster
    finally:
        for process in (those, scheduler):
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(30)


def wait_for_address(scheduler_file: Path, workers: int) -> str:
    """Return the address of a scheduler once its workers have connected."""
    from distributed import Client

    limit = time.monotonic() + START_S
    while not scheduler_file.exists() and time.monotonic() < limit:
        time.sleep(0.1)
    with Client(scheduler_file=str(scheduler_file), set_as_default=False) as client:
        client.wait_for_workers(workers, timeout=START_S)
        found: str = client.scheduler.address
        return found


if __name__ == "__main__":
    main()
