"""Judge the same code only once: copies get the same records.

In a class many students hand in code from a book, a neighbour or an assistant. Two files have the
same code if they have the same tokens at the same positions in the same cells; comments after or
between statements, text cells and outputs may differ (`grader/reading/fingerprints.py`). The second
file then gets the verdicts, messages and line numbers of the first. Excerpts show comments, so each
file gets its own excerpts.

Equal outputs do not count as the same code, since two programs may agree on all queries and differ
on other inputs. Records are not copied either if an accident may have played a part (time, memory,
a process that was killed from outside), if the file was not judged, or if it imports files beside
it.
"""

import time
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from headcheck.grader.grading.excerpts import collect_excerpts
from headcheck.grader.grading.infer import Inferred
from headcheck.grader.reading.submission import Siblings, Submission
from headcheck.grader.report.records import REPAIRED, SubmissionRecord
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.properties.sized_cache import EACH, SizedCache
from headcheck.properties.violations.violation import Status

MAX_KNOWN = 256
"""how many digests are remembered; the oldest digest is forgotten first"""
SETTLED = {
    *(each.value for each in (Status.PASSED, Status.FAILED, Status.CRASHED, Status.NOT_TRIED)),
    REPAIRED,
}


@dataclass(frozen=True)
class JudgedCode:
    """The records of all code judged in this process; one instance serves one run's settings."""

    records: SizedCache[tuple[SubmissionRecord, ...]] = field(
        default_factory=lambda: SizedCache(MAX_KNOWN * EACH)
    )

    def recall(
        self, key: Hashable, submission: Submission, session: Session
    ) -> list[SubmissionRecord]:
        """Return the records of the same code for another file; empty if it is not judged yet."""
        began = time.monotonic()
        known, _ = self.records.results.get(key, ((), 0))
        return [
            replace(
                record,
                file=submission.display_path,
                student=submission.student,
                source=collect_excerpts(
                    session, [(each.cell, line) for each in record.source for line in each.marked]
                ),
                seconds=time.monotonic() - began,
            )
            for record in known
        ]

    def keep(self, key: Hashable, records: Sequence[SubmissionRecord]) -> None:
        """Remember records, unless an accident may have played a part in them."""
        if key is None or not all(map(_is_settled, records)):
            return
        self.records.get_or_make(key, lambda: tuple(records), lambda _: 0)


def make_key(code: str, siblings: Siblings, inferred: Inferred, name: str | None) -> Hashable:
    """Return the key that files with equal records share; None if a file has no such key.

    The definitions to judge depend on the requested name and on the file's name.
    """
    if not code or siblings.files or siblings.problems:
        return None
    targets = tuple((t.exercise.slug, t.name, t.by_position) for t in inferred.targets)
    others = tuple(
        tuple(s.name for s in each) for each in (inferred.candidates, inferred.functions)
    )
    # What is said of a missing file depends on whether files were searched for.
    return code, siblings.searched, name, targets, others


def _is_settled(record: SubmissionRecord) -> bool:
    statuses = {record.status, *(prop.status for prop in record.properties)}
    return record.error is None and statuses <= SETTLED
