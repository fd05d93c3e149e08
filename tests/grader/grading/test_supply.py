"""Submissions that are taken one by one by several workers: none too early, none held back."""

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from headcheck.grader.grading.worker_pool import WorkerPool, _grade_with_threads
from headcheck.grader.reading.submission import Submission

FILES = [Submission(Path(f"{i}.py"), f"{i}.py") for i in range(6)]
WITHIN_S = 60.0


@dataclass
class SlowFirst:
    """A pool of two workers that does not finish the first file until it is told to."""

    workers: tuple[str, str] = ("a", "b")
    go: threading.Event = field(default_factory=threading.Event)

    def grade(self, submission: Submission) -> list[Any]:
        if submission == FILES[0]:
            assert self.go.wait(WITHIN_S)
        if submission.display_path == "raises.py":
            raise ValueError("broken")
        return []


@dataclass
class Taken:
    """Yields files, and says how many were taken."""

    count: int = 0

    def __len__(self) -> int:
        return len(FILES)

    def __iter__(self) -> Iterator[Submission]:
        for each in FILES:
            self.count += 1
            yield each


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(2) as made:
        yield made


def test_a_slow_file_holds_back_no_file_of_a_supply(threads: ThreadPoolExecutor) -> None:
    pool, supply = SlowFirst(), Taken()
    graded = _grade_with_threads(cast("WorkerPool", pool), threads, supply)
    for done, each in enumerate(FILES[1:], start=1):
        assert next(graded)[0] == each
        assert supply.count <= done + 2, "only what a worker is free for is taken"
    pool.go.set()
    assert [each for each, _ in graded] == FILES[:1]


def test_the_files_of_a_sequence_come_in_order(threads: ThreadPoolExecutor) -> None:
    pool = SlowFirst()
    graded = _grade_with_threads(cast("WorkerPool", pool), threads, FILES)
    threading.Timer(0.05, pool.go.set).start()
    assert [each for each, _ in graded] == FILES


def test_an_error_is_raised(threads: ThreadPoolExecutor) -> None:
    files = [*FILES[1:3], Submission(Path("raises.py"), "raises.py")]
    with pytest.raises(ValueError, match="broken"):
        list(_grade_with_threads(cast("WorkerPool", SlowFirst()), threads, files))
