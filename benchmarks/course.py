"""What a course costs beside the judging: `python -m benchmarks.course [SUBMISSIONS] [STORE]`.

Judges one wrong answer and pretends that everybody's verdict is that: a Canvas download of as many
different files is taken in and stored one by one, taken in again with nothing to judge, and
exported in every format. STORE is a file or a URL of an empty database; else a file of its own.
Writes dashboard.html into the current folder.
"""

import sys
import tempfile
import time
import zipfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TypeVar

from exercises import BY_SLUG
from grader import run
from grader.cohort import course, dashboard, manifest
from grader.cohort.decisions import results
from grader.cohort.export import FORMATS, Gradebook, export
from grader.cohort.intake import Wanted, gathered
from grader.cohort.store import Store, opened
from grader.judging.grading import Settings
from grader.report import SubmissionRecord

SUBMISSIONS = 2000
SLUG = "multi_head_attention"
T = TypeVar("T")


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SUBMISSIONS
    exercise = BY_SLUG[SLUG]
    settings = Settings(exercise=exercise)
    source = (exercise.folder / "answers" / "wrong" / "no_scale.py").read_text()
    with tempfile.TemporaryDirectory() as scratch:
        archive = download(Path(scratch), source, count)
        record = judged(Path(scratch), source, settings)
        place = sys.argv[2] if len(sys.argv) > 2 else str(Path(scratch, "course.db"))
        with opened(place, create=True) as store:
            timed("taken in, each stored", lambda: stored(store, archive, settings, record))
            timed("taken in again", lambda: again(store, archive, settings))
            standings = timed("read from the store", lambda: results(store, "course"))
        book = Gradebook("course", tuple(standings))
        for form in [name for name, each in FORMATS.items() if not each.into]:
            timed(f"exported as {form}", partial(export, book, form))
        page = timed("dashboard", lambda: dashboard.render(book, "benchmark"))
        Path("dashboard.html").write_text(page, encoding="utf-8")
        print(f"dashboard.html: {len(page.encode()) / 1e6:.1f} MB, to be opened in a browser")


def download(folder: Path, source: str, count: int) -> Path:
    """A Canvas download of different files."""
    path = folder / "submissions.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(count):
            archive.writestr(f"student{i}_{i}_{i}_attention.py", f"{source}\n# {i}\n")
    return path


def judged(folder: Path, source: str, settings: Settings) -> SubmissionRecord:
    """One real verdict."""
    path = folder / "one.py"
    path.write_text(source)
    return run.grade([str(path)], settings).submissions[0]


def stored(
    store: Store, archive: Path, settings: Settings, record: SubmissionRecord
) -> Sequence[object]:
    """What grading does, but for the judging."""
    begun = store.begin("course", manifest.of(settings))
    with gathered([str(archive)], Wanted()) as intake:
        batches = course.batched(intake.hand_ins, settings)
        for batch in batches:
            handed_in = batch.hand_ins[0].submission
            assert handed_in is not None
            content = replace(batch.content, data=handed_in.path.read_bytes())
            store.finish(begun, begun.manifest.key, content, batch.hand_ins, [record])
    return batches


def again(store: Store, archive: Path, settings: Settings) -> object:
    """The same command once more: nothing is left to judge."""
    with gathered([str(archive)], Wanted()) as intake:
        return course.grade(store, intake, settings, "course", attempts="latest", trusted=False)


def timed(what: str, action: Callable[[], T]) -> T:
    """Do it, and print how long it took."""
    began = time.perf_counter()
    result = action()
    print(f"{what:32} {time.perf_counter() - began:8.2f} s")
    return result


if __name__ == "__main__":
    main()
