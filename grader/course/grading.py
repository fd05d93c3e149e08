"""Grade a course into a store, regrade it, and replay single students.

Files that have a judgement in the store are not graded again, and each file is saved as soon as it
is graded. So an interrupted command can simply be repeated, and unchanged files are not graded
twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from headcheck.exercises import BY_SLUG
from headcheck.grader import files, run
from headcheck.grader.course import CourseError
from headcheck.grader.course.intake import scratch
from headcheck.grader.course.intake.gather import Intake, SubmittedFile
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
from headcheck.grader.course.store.records import (
    FileContent,
    GradedFile,
    Run,
    make_missing_content,
)
from headcheck.grader.course.store.store import Store
from headcheck.grader.grading.precompile import precompile_plans
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.ungraded import record_unreadable
from headcheck.grader.grading.worker_pool import RemoteGrader, Sandbox
from headcheck.grader.reading import submission
from headcheck.grader.reading.siblings import gather_siblings
from headcheck.grader.reading.submission import Submission, UnreadableSubmission
from headcheck.grader.report import points
from headcheck.grader.report.feedback import FULL_FEEDBACK, Feedback
from headcheck.grader.report.records import (
    FORMAT_VERSION,
    NOT_JUDGED,
    ErrorRecord,
    Report,
    SandboxRecord,
    SubmissionRecord,
    get_version,
    record_seed,
)
from headcheck.grader.sandbox.grader_side.launch import Zygote
from headcheck.grader.seed import SeedKind


@dataclass(frozen=True, slots=True)
class ContentGroup:
    """Some bytes and all files that consist of them; the first file is graded for all of them."""

    content: FileContent
    submitted_files: tuple[SubmittedFile, ...]


def grade(
    store: Store,
    intake: Intake,
    settings: Settings,
    name: str,
    *,
    attempts: str,
    trusted: bool,
    feedback: Feedback | None = None,
    policy: Policy | None = None,
    cluster: str | None = None,
    ahead: Zygote | None = None,
) -> Report:
    """Grade files without a judgement, here or on a cluster, and report on the whole intake.

    The feedback level and the policy are kept with the run, from the last command that set them.
    `ahead` is a zygote that was started before. Raises SandboxError if submissions are neither
    confined nor trusted.
    """
    kept = policy or store.find_policy(name)
    planned = manifest.build_manifest(settings, attempts, feedback or FULL_FEEDBACK, kept)
    begin = store.resume if settings.seed.kind is SeedKind.SECRET else store.begin
    begun = begin(name, planned)
    settings = replace(settings, seed=begun.manifest.case_seed)
    begun = store.keep_rules(begun, feedback or begun.manifest.feedback, kept)
    key = begun.manifest.key
    groups = group_by_content(intake.submitted_files, settings)
    sandbox_then = score_judged(store, begun.manifest, groups)
    if begun.manifest.sandbox is None and sandbox_then is not None:
        begun = store.update_manifest(begun, replace(begun.manifest, sandbox=sandbox_then))
    known = store.load_judgement_ids(key)
    graded = [each for each in groups if each.content.key in known]
    store.link_judgements(
        begun, [(file, known[g.content.key]) for g in graded for file in g.submitted_files]
    )
    for group, records, sandbox in _grade_groups(
        [each for each in groups if each.content.key not in known],
        settings,
        trusted,
        cluster,
        ahead,
    ):
        if sandbox is not None and sandbox != begun.manifest.sandbox:
            begun = store.update_manifest(begun, replace(begun.manifest, sandbox=sandbox))
        store.save_judgement(begun, key, group.content, group.submitted_files, records)
    store.remove_superseded(begun, intake.submitted_files)
    students = {each.student.id for each in intake.submitted_files}
    return build_report(begun, (e for e in store.load_graded_files(name) if e.student in students))


def score_judged(
    store: Store, planned: Manifest, groups: Sequence[ContentGroup]
) -> SandboxRecord | None:
    """Give stored verdicts the points of these settings, without grading anything again.

    Returns how the submissions of the earlier run were confined; None if there is no such run.
    """
    same = [r.manifest for r in store.list_runs() if r.manifest.verdict_key == planned.verdict_key]
    wanted, settings = {each.content.key for each in groups}, planned.settings

    def score(record: SubmissionRecord) -> SubmissionRecord:
        named = settings.exercise
        exercise = named if named and named.slug == record.exercise else None
        exercise = exercise or BY_SLUG.get(record.exercise or "")
        return points.score_again(
            record, exercise, settings.points, settings.rounding, settings.slip
        )

    for earlier in reversed(same):
        if earlier.key != planned.key:
            store.copy_judgements(earlier.key, planned.key, wanted, score)
    return next((each.sandbox for each in reversed(same) if each.sandbox is not None), None)


def build_report(begun: Run, stored: Iterable[GradedFile]) -> Report:
    """Return a report on stored files, sorted by student, attempt and file."""
    records = tuple(record for each in stored for record in each.records)
    about = begun.manifest
    return Report(
        FORMAT_VERSION, about.headcheck, records, about.sandbox, record_seed(about.case_seed)
    )


def group_by_content(
    submitted_files: Iterable[SubmittedFile], settings: Settings
) -> list[ContentGroup]:
    """Group files with the same bytes; groups are in the order of their first files."""
    limit = settings.get_limits(settings.exercise).source
    groups: dict[tuple[str, str], tuple[FileContent, list[SubmittedFile]]] = {}
    for each in submitted_files:
        content, _ = _read_content(each, limit)
        groups.setdefault(content.key, (replace(content, data=None), []))[1].append(each)
    return [ContentGroup(content, tuple(listed)) for content, listed in groups.values()]


def _read_content(submitted_file: SubmittedFile, limit: int) -> tuple[FileContent, str]:
    """Return a file's content and, if it cannot be read, the problem."""
    handed_in, problem = submitted_file.submission, submitted_file.problem
    if handed_in is not None:
        try:
            data = submission.read_submission(handed_in, limit)
            siblings = gather_siblings(handed_in, data, limit)
            return bundle.pack(data, handed_in.kind, siblings), ""
        except UnreadableSubmission as error:
            problem = str(error)
    return make_missing_content(problem), problem


def _grade_groups(
    groups: Sequence[ContentGroup],
    settings: Settings,
    trusted: bool,
    cluster: str | None = None,
    ahead: Zygote | None = None,
) -> Iterator[tuple[ContentGroup, Sequence[SubmissionRecord], SandboxRecord | None]]:
    """Yield each group with its bytes and its records, as soon as it is graded.

    The bytes of a group are read a second time for this, because the bytes of a whole class do not
    fit into memory. A file that has changed in the meantime is skipped; repeating the command
    grades it.
    """
    limit = settings.get_limits(settings.exercise).source
    readable: dict[Submission, ContentGroup] = {}
    for group in groups:
        first = group.submitted_files[0]
        if first.submission is None or group.content.kind == "none":
            problem = _read_content(first, limit)[1]
            yield group, [_make_unreadable_record(first, problem, settings)], None
        else:
            readable[first.submission] = group
    if not readable:
        return
    plans = precompile_plans(list(readable), settings) if cluster is None else nullcontext()
    with plans, _open_sandbox(settings, trusted, cluster, ahead) as server:
        level = server.isolation_level
        sandbox = SandboxRecord(level.name, level.layers, level.summary)
        for graded_file, records in run.grade_with_progress(server, list(readable), settings):
            group = readable[graded_file]
            content, _ = _read_content(group.submitted_files[0], limit)
            if content.digest == group.content.digest:
                yield replace(group, content=content), records, sandbox


def _open_sandbox(
    settings: Settings, trusted: bool, cluster: str | None, ahead: Zygote | None
) -> Sandbox | RemoteGrader:
    """Return the sandbox or the cluster. Raises SandboxError, or ImportError without Dask."""
    if cluster is None:
        return run.create_sandbox(trusted=trusted, device=settings.device, ahead=ahead)
    from headcheck.grader.course.cluster import Cluster

    return Cluster(cluster, trusted=trusted)


def _make_unreadable_record(
    submitted_file: SubmittedFile, problem: str, settings: Settings
) -> SubmissionRecord:
    owned = Submission(Path(), submitted_file.file, submitted_by=submitted_file.student.id)
    record = record_unreadable(owned, settings, problem)
    # The problem is kept in full: a regrade computes the content's digest from it.
    return replace(record, seconds=0.0, error=ErrorRecord("unreadable", problem))


# ---------------------------------------------------------------------------- regrade


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
        for group, records, sandbox in _grade_groups(todo, settings, trusted):
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


# ---------------------------------------------------------------------------- replay


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
        before = [_drop_seconds(r) for each in self.stored for r in each.records]
        return before == [_drop_seconds(r) for r in self.report.submissions]


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
        graded = _grade_groups(groups, settings, trusted)
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


def _drop_seconds(record: SubmissionRecord) -> SubmissionRecord:
    return replace(record, seconds=0.0)
