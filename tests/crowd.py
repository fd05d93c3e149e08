"""Other processes that keep the processors busy while something is tested."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

SPIN = (
    sys.executable, "-c", "import os\nparent = os.getppid()\nwhile os.getppid() == parent: pass",
)  # fmt: skip
"""computes until whoever started it has ended"""


@contextmanager
def crowd(others: int) -> Iterator[None]:
    """So many processes that compute, on any processor."""
    started = [subprocess.Popen(SPIN) for _ in range(others)]
    try:
        yield
    finally:
        for process in started:
            process.kill()
            process.wait()


@contextmanager
def alone_with(others: int) -> Iterator[None]:
    """This process, and what it starts, on one processor, with others that compute there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    try:
        with crowd(others):
            yield
    finally:
        os.sched_setaffinity(0, before)
