"""The cost of a course without judging: `python -m benchmarks.course [SUBMISSIONS] [STORE]`.

Judges one wrong answer and pretends that everybody gets its verdict: a Canvas download of
SUBMISSIONS different files is read and stored one by one, read again with nothing to judge, and
exported in every format. STORE is a file or the URL of an empty database; without it a temporary
file is used. Writes dashboard.html into the current folder.
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

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import find_answer
from headcheck.grader import run
from headcheck.grader.course import dashboard, grading
from headcheck.grader.course.export import FORMATS, Gradebook, export
from headcheck.grader.course.intake.gather import IntakeOptions, gather_submissions
from headcheck.grader.course.result_lookup import load_results
from headcheck.grader.course.store import manifest
from headcheck.grader.course.store.claims import open_claims
from headcheck.grader.course.store.store import Store, open_store
from headcheck.grader.grading.settings import Settings
from headcheck.grader.report.records import SubmissionRecord

SUBMISSIONS = 2000
SLUG = "multi_head_attention"
T = TypeVar("T")


def main() -> None:
    """Measure and print."""
    count = int(sys.argv[1]) if len(sys.argv) > 1 else SUBMISSIONS
    exercise = BY_SLUG[SLUG]
    settings = Settings(exercise=exercise)
    source = find_answer(exercise, "no_scale").source
    with tempfile.TemporaryDirectory() as scratch:
        archive = write_download(Path(scratch), source, count)
        record = grade_one(Path(scratch), source, settings)
        location = sys.argv[2] if len(sys.argv) > 2 else str(Path(scratch, "course.db"))
        with open_store(location, create=True) as store:
            measure_time(
                "taken in, each stored", lambda: store_all(store, archive, settings, record)
            )
            measure_time("taken in again", lambda: grade_again(store, archive, settings))
            standings = measure_time("read from the store", lambda: load_results(store, "course"))
        book = Gradebook("course", tuple(standings))
        for form in [
            name for name, each in FORMATS.items() if not each.fills and each.contents != "marks"
        ]:
            measure_time(f"exported as {form}", partial(export, book, form))
        page = measure_time("dashboard", lambda: dashboard.render(book, "benchmark"))
        Path("dashboard.html").write_text(page, encoding="utf-8")
        print(f"dashboard.html: {len(page.encode()) / 1e6:.1f} MB, to be opened in a browser")


def write_download(folder: Path, source: str, count: int) -> Path:
    """A Canvas download of different files."""
    path = folder / "submissions.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for i in range(count):
            archive.writestr(f"student{i}_{i}_{i}_attention.py", f"{source}\n# {i}\n")
    return path


def grade_one(folder: Path, source: str, settings: Settings) -> SubmissionRecord:
    """One real verdict."""
    path = folder / "one.py"
    path.write_text(source)
    return run.grade_paths([str(path)], settings).submissions[0]


def store_all(
    store: Store, archive: Path, settings: Settings, record: SubmissionRecord
) -> Sequence[object]:
    """Do what grading does, except for the judging."""
    begun = store.begin("course", manifest.build_manifest(settings))
    with gather_submissions([str(archive)], IntakeOptions()) as intake:
        batches = grading.group_by_content(intake.submitted_files, settings)
        with open_claims(store.engine, begun.manifest.key) as claims:
            by_key = {each.content.key: each for each in batches}
            claims.announce(by_key)
            for batch in map(by_key.__getitem__, iter(claims.take, None)):
                handed_in = batch.submitted_files[0].submission
                assert handed_in is not None
                content = replace(batch.content, data=handed_in.path.read_bytes())
                store.save_judgement(
                    begun, begun.manifest.key, content, batch.submitted_files, [record]
                )
                claims.finish(content.key)
    return batches


def grade_again(store: Store, archive: Path, settings: Settings) -> object:
    """Run the same command once more, with nothing left to judge."""
    with gather_submissions([str(archive)], IntakeOptions()) as intake:
        return grading.grade(store, intake, settings, "course", attempts="latest", trusted=False)


def measure_time(what: str, action: Callable[[], T]) -> T:
    """Run the action, and print how long it took."""
    began = time.perf_counter()
    result = action()
    print(f"{what:32} {time.perf_counter() - began:8.2f} s")
    return result


if __name__ == "__main__":
    main()
