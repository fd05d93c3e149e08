"""What one more submission costs: `python -m benchmarks [SUBMISSIONS] [ROUNDS]`.

Grades a folder with one right answer and a folder with many, in turn, as whole processes, and
prints the median of the differences: the start of the interpreter and of the fork server cancels.
"""

import os
import resource
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from exercises import multi_head_attention

SUBMISSIONS, ROUNDS = 12, 3


def main() -> None:
    """Measure and print."""
    given = [int(argument) for argument in sys.argv[1:]]
    submissions, rounds = [*given, *(SUBMISSIONS, ROUNDS)[len(given) :]]
    with tempfile.TemporaryDirectory() as scratch:
        few, many = Path(scratch, "few"), Path(scratch, "many")
        fill(few, 1)
        fill(many, submissions)
        pairs = [(grade(few), grade(many)) for _ in range(rounds)]
    for name, i in (("processor", 0), ("wall", 1)):
        start = statistics.median(one[i] for one, _ in pairs)
        each = statistics.median((all_[i] - one[i]) / (submissions - 1) for one, all_ in pairs)
        print(f"{name:<10} {start:.2f} s with one submission, {each:.2f} s for each further one")


def fill(folder: Path, count: int) -> None:
    """A folder with this many copies of a right answer."""
    folder.mkdir()
    for i in range(count):
        shutil.copy(multi_head_attention.EXERCISE.folder / "solution.py", folder / f"s{i:04}.py")


def grade(folder: Path) -> tuple[float, float]:
    """Processor and wall seconds of grading a folder, every process of it included."""
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    command = [sys.executable, "-m", "grader", "grade", str(folder), "--format", "json"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    subprocess.run(command, check=True, env=environment, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    spent = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    return spent, time.monotonic() - began


if __name__ == "__main__":
    main()
