"""Scripts are compiled in the background: those of a new seed are on no disk.

While the zygote gets warm and the first submissions are read, a thread compiles what these are
likely to need. Whoever needs a script earlier waits for it, or compiles it (`shelf.shared`).
"""

import re
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from itertools import islice

from exercises import ALL, Exercise
from grader.batch.plan import get_batch_plan
from grader.grading.grade import Settings
from grader.reading import submission
from grader.reading.submission import Submission, UnreadableSubmission

SAMPLED_SUBMISSIONS = 4
"""how many submissions are looked into for what a class was asked"""


@contextmanager
def precompile_plans(found: Sequence[Submission], settings: Settings) -> Iterator[None]:
    """Compile what these submissions are likely to need, as long as the context lasts."""
    over = threading.Event()
    thread = threading.Thread(target=_compile_plans, args=(found, settings, over), daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _compile_plans(found: Sequence[Submission], settings: Settings, over: threading.Event) -> None:
    # What goes wrong here goes wrong again where the script is needed, and is reported there.
    with suppress(Exception):
        for exercise in guess_exercises(found, settings):
            if over.is_set():
                return
            get_batch_plan(
                exercise, exercise.contract.mappings, settings.seed.value, settings.device
            )


def guess_exercises(found: Sequence[Submission], settings: Settings) -> Iterator[Exercise]:
    """The exercises that these submissions seem to answer, by what the first of them define.

    A guess from their bytes, which are not run and not parsed: it decides only what is compiled
    early. Of two exercises that ask for the same name, the first is taken.
    """
    if settings.exercise is not None:
        yield settings.exercise
        return
    limit = settings.get_limits(None).source
    asked = {exercise.contract.name: exercise for exercise in reversed(ALL)}
    seen: set[str] = set()
    for handed_in in islice(found, SAMPLED_SUBMISSIONS):
        with suppress(UnreadableSubmission):
            new = (
                set(_find_defined_names(submission.read_submission(handed_in, limit)))
                & asked.keys() - seen
            )
            seen |= new
            yield from (asked[name] for name in sorted(new))


def _find_defined_names(data: bytes) -> Iterator[str]:
    for name in re.findall(rb"\b(?:class|def)\s+(\w{1,80})\b", data):
        yield name.decode()
