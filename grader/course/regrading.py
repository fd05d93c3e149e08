"""Grade stored files again: to regrade a run, or to replay one student's files."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from headcheck.grader import files
from headcheck.grader.course import CourseError
from headcheck.grader.course.grading import grade_groups, group_by_content, score_judged
from headcheck.grader.course.intake import scratch
from headcheck.grader.course.intake.gather import SubmittedFile
from headcheck.grader.course.intake.roster import Student
from headcheck.grader.course.policy import Policy
from headcheck.grader.course.results import (
    ExerciseResult,
    ScoreChange,
    compare_results,
    compute_results,
    list_changed_maxima,
)
from headcheck.grader.course.store import bundle, manifest
from headcheck.grader.course.store.manifest import Manifest
from headcheck.grader.course.store.records import GradedFile, Run
from headcheck.grader.course.store.store import Store
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import Submission
from headcheck.grader.report.feedback import Feedback
from headcheck.grader.report.records import (
    FORMAT_VERSION,
    NOT_JUDGED,
    Report,
    SubmissionRecord,
    get_version,
    record_seed,
)


@dataclass(frozen=True, slots=True)
class RegradeResult:
    """The current results compared with the results of grading again."""

    manifest: Manifest
    before: tuple[ExerciseResult, ...]
    after: tuple[ExerciseResult, ...]
    stored: tuple[GradedFile, ...]
    """the current files with their new verdicts"""

    @property
    def count(self) -> int:
        """How many results there are, before or after."""
        return len({(e.student, e.exercise) for e in (*self.before, *self.after)})

    @property
    def changed_maxima(self) -> list[tuple[str, float, float]]:
        """The exercises whose maximum points have changed, with the maxima before and after."""
        return list_changed_maxima(self.before, self.after)

    @property
    def score_changes(self) -> list[ScoreChange]:
        """The score changes of the students who would gain or lose points."""
        return compare_results(self.before, self.after)


def regrade(
    store: Store,
    name: str,
    settings: Settings,
    *,
    trusted: bool,
    feedback: Feedback | None = None,
    policy: Policy | None = None,
) -> RegradeResult:
    """Grade the current files of a run again. Judgements are saved, but grades do not change.

    The feedback level and the policy stay the same unless others are given. Raises SandboxError,
    StoreError, and CourseError if a file could not be graded.
    """
    last = store.load_newest_run(name).manifest
    kept = feedback or last.feedback, policy or last.policy
    planned = manifest.build_manifest(settings, last.attempts, *kept)
    current = store.load_graded_files(name)
    with _restore_files(store, current) as submitted_files:
        groups = group_by_content(submitted_files, settings)
        planned = replace(planned, sandbox=score_judged(store, planned, groups))
        known = store.load_judgement_ids(planned.key)
        todo = [each for each in groups if each.content.key not in known]
        for group, records, sandbox in grade_groups(todo, settings, trusted):
            if sandbox is not None:
                planned = replace(planned, sandbox=sandbox)
            for record in (each for each in records if each.status == NOT_JUDGED):
                raise CourseError(f"{record.file}: {record.error and record.error.message}")
            store.save_judgement(None, planned.key, group.content, (), records)
    verdicts = store.load_verdicts(planned.key)
    regraded = [_replace_records(each, verdicts) for each in current]
    overrides, marks = store.load_overrides(name), store.load_marks(name)
    then, now = (
        compute_results(stored, overrides, marks=marks, policy=about.policy, step=about.rounding)
        for about, stored in ((last, current), (planned, regraded))
    )
    return RegradeResult(planned, tuple(then), tuple(now), tuple(regraded))


def adopt(store: Store, name: str, regraded: RegradeResult) -> Run:
    """Make the new verdicts the current ones; overrides, marks and comments remain."""
    begun = store.begin(name, regraded.manifest)
    begun = store.keep_rules(begun, regraded.manifest.feedback, regraded.manifest.policy)
    known = store.load_judgement_ids(regraded.manifest.key)
    linked = [(_restore_file(each, None), known[each.content_key]) for each in regraded.stored]
    store.link_judgements(begun, linked)
    return begun


@contextmanager
def _restore_files(store: Store, stored: Sequence[GradedFile]) -> Iterator[list[SubmittedFile]]:
    """Write stored bytes into a private folder, which is removed at the end of the context."""
    with scratch.make_folder() as folder:
        restored: dict[tuple[str, str], Submission | None] = {}
        for each in stored:
            if each.content_key not in restored:
                restored[each.content_key] = _restore_content(store, each, folder)
        yield [_restore_file(each, restored[each.content_key]) for each in stored]


def _restore_content(store: Store, stored: GradedFile, folder: Path) -> Submission | None:
    """Write the bytes of a content; None if there are none."""
    content = store.load_content(stored.content)
    if content is None:
        return None
    unpacked = bundle.unpack(content, stored.kind)
    path = folder / f"{stored.content}.{unpacked.kind}"
    files.write(path, unpacked.data)
    # Where nothing came with it, nothing is beside it in the private folder, either.
    siblings = replace(unpacked.siblings, searched=True)
    return Submission(path, stored.file, siblings=siblings)


def _restore_file(stored: GradedFile, restored: Submission | None) -> SubmittedFile:
    """Return a stored file as the intake made it; if its bytes are missing, it is unreadable."""
    error = next((r.error.message for r in stored.records if r.error is not None), "")
    owned = restored and replace(restored, display_path=stored.file, submitted_by=stored.student)
    return SubmittedFile(
        student=Student(stored.student, stored.name, email=stored.email),
        handle=stored.handle,
        file=stored.file,
        attempt=stored.attempt,
        late=stored.late,
        submitted=stored.submitted_at,
        submission=owned,
        problem="" if owned is not None else error,
    )


def _replace_records(
    stored: GradedFile, verdicts: Mapping[tuple[str, str], Sequence[SubmissionRecord]]
) -> GradedFile:
    """Return a stored file with other verdicts."""
    records = verdicts[stored.content_key]
    owned = tuple(replace(r, file=stored.file, student=stored.student) for r in records)
    return replace(stored, records=owned)


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A student's files, graded again under the settings of their run."""

    stored: tuple[GradedFile, ...]
    report: Report
    differences: tuple[str, ...]
    """the versions that have changed since the run; if none has, the verdicts must be the same"""

    @property
    def same(self) -> bool:
        """Whether the verdicts equal the stored ones, except for the time that they took."""
        before = [replace(r, seconds=0.0) for each in self.stored for r in each.records]
        return before == [replace(r, seconds=0.0) for r in self.report.submissions]


def replay(store: Store, name: str, student: str, *, trusted: bool) -> ReplayResult:
    """Grade a student's files again with the settings of their run. Nothing is saved.

    Raises StoreError, ManifestError, SandboxError.
    """
    stored = store.load_student_files(name, student)
    then = next(each for each in store.list_runs() if each.id == stored[0].run).manifest
    settings = then.settings
    now = manifest.build_manifest(settings)
    with _restore_files(store, stored) as submitted_files:
        groups = group_by_content(submitted_files, settings)
        graded = grade_groups(groups, settings, trusted)
        verdicts = {group.content.key: records for group, records, _ in graded}
    again = [record for each in stored for record in _replace_records(each, verdicts).records]
    versions = (("headcheck", then.headcheck, now.headcheck), ("torch", then.torch, now.torch))
    differ = [f"{what} {old} then, {new} now" for what, old, new in versions if old != new]
    differ += ["the checks have changed"] if then.judge != now.judge else []
    differ += ["the cases have changed"] if then.plan != now.plan else []
    report = Report(
        FORMAT_VERSION, get_version(), tuple(again), then.sandbox, record_seed(then.case_seed)
    )
    return ReplayResult(tuple(stored), report, tuple(differ))
