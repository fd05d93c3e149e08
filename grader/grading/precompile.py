"""Compile batch plans in the background, because the plans of a new seed are not on disk yet.

While the zygote warms up and the first submissions are read, a thread compiles the plans that these
submissions are likely to need. Code that needs a plan before it is finished waits for the plan or
compiles it itself (`disk_cache.load_or_make`).
"""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from headcheck.exercises import ALL, Exercise
from headcheck.grader.batch.plan import get_batch_plan
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading import submission
from headcheck.grader.reading.submission import Submission, UnreadableSubmission

SAMPLED_SUBMISSIONS = 4
"""how many submissions are read to guess which exercises a class of students was given"""


@contextmanager
def precompile_plans(found: Sequence[Submission], settings: Settings) -> Iterator[None]:
    """Compile the plans that these submissions are likely to need until the context is left."""
    stop = threading.Event()
    thread = threading.Thread(target=_compile_plans, args=(found, settings, stop), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join()


def _compile_plans(found: Sequence[Submission], settings: Settings, stop: threading.Event) -> None:
    # An error here happens again where the plan is needed, and is reported there.
    with suppress(Exception):
        for exercise in guess_exercises(found, settings):
            if stop.is_set():
                return
            asked = exercise.at(settings.get_depth(exercise))
            get_batch_plan(asked, asked.contract.mappings, settings.seed.value, settings.device)


def guess_exercises(found: Sequence[Submission], settings: Settings) -> Iterator[Exercise]:
    """Yield the exercises that these submissions seem to answer, guessed from the first few.

    The guess uses only the bytes of the files, which are neither run nor parsed, and decides only
    which plans are compiled early. Of two exercises with the same name, it takes the first.
    """
    if settings.exercise is not None:
        yield settings.exercise
        return
    limit = settings.get_limits(None).source
    waiting = {exercise.contract.name: exercise for exercise in reversed(ALL)}
    for file in islice(found, SAMPLED_SUBMISSIONS):
        with suppress(UnreadableSubmission):
            data = submission.read_submission(file, limit)
            defined = re.findall(rb"\b(?:class|def)\s+(\w{1,80})\b", data)
            names = {name.decode() for name in defined}
            yield from [waiting.pop(name) for name in sorted(names & waiting.keys())]
