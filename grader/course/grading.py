"""Grading a course into a store, and grading it again.

The store is asked what it knows before anything is judged, and told of each file as soon as that is
judged. So an interrupted command is simply given again, and what did not change is not judged
twice.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path

from grader import fault, files, run
from grader.course import CourseError
from grader.course.intake import scratch
from grader.course.intake.gather import Intake, SubmittedFile
from grader.course.intake.roster import Student
from grader.course.results import ExerciseResult, ScoreChange, compare_results, compute_results
from grader.course.store import manifest
from grader.course.store.manifest import Manifest
from grader.course.store.records import (
    FileContent,
    GradedFile,
    Run,
    hash_content,
    make_missing_content,
)
from grader.course.store.store import Store
from grader.grading import worker_pool
from grader.grading.grade import Settings
from grader.grading.precompile import precompile_plans
from grader.grading.worker_pool import RemoteGrader, Sandbox
from grader.reading import submission
from grader.reading.submission import Submission, UnreadableSubmission
from grader.report import points
from grader.report.feedback import FULL_FEEDBACK, Feedback
from grader.report.records import (
    FORMAT_VERSION,
    ErrorRecord,
    Report,
    SandboxRecord,
    SubmissionRecord,
    get_version,
    record_seed,
)
from grader.seed import SeedKind


@dataclass(frozen=True, slots=True)
class ContentGroup:
    """The same bytes, and all that were handed in with them."""

    content: FileContent
    submitted_files: tuple[SubmittedFile, ...]

    @property
    def submission(self) -> Submission | None:
        """One of the files, to be judged for all."""
        return self.submitted_files[0].submission


def grade(
    store: Store,
    intake: Intake,
    chosen: Settings,
    name: str,
    *,
    attempts: str,
    trusted: bool,
    feedback: Feedback | None = None,
    cluster: str | None = None,
) -> Report:
    """Judge what is not known, here or on a cluster, and report on all that was taken in.

    How much of it students are told is kept with the run, from the last command that said so.
    Raises SandboxError where submissions cannot be confined and are not trusted.
    """
    wanted = manifest.build_manifest(chosen, attempts, feedback or FULL_FEEDBACK)
    begin = store.resume if chosen.seed.kind is SeedKind.SECRET else store.begin
    begun = begin(name, wanted)
    chosen = replace(chosen, seed=begun.manifest.case_seed)
    if feedback is not None and feedback != begun.manifest.feedback:
        begun = store.update_manifest(begun, replace(begun.manifest, feedback=feedback))
    key = begun.manifest.key
    known = store.load_judgement_ids(key)
    groups = group_by_content(intake.submitted_files, chosen)
    old = [
        (h, known[_get_content_key(b)])
        for b in groups
        if _get_content_key(b) in known
        for h in b.submitted_files
    ]
    store.link_judgements(begun, old)
    faults: list[SubmissionRecord] = []
    for group, records, sandbox in _grade_groups(
        [b for b in groups if _get_content_key(b) not in known], chosen, trusted, cluster
    ):
        if sandbox is not None and sandbox != begun.manifest.sandbox:
            begun = store.update_manifest(begun, replace(begun.manifest, sandbox=sandbox))
        faults += [record for record in records if _is_internal_fault(record)]
        if not any(map(_is_internal_fault, records)):
            store.save_judgement(begun, key, group.content, group.submitted_files, records)
    store.remove_superseded(begun, intake.submitted_files)
    students = {each.student.id for each in intake.submitted_files}
    told = build_report(
        begun, [each for each in store.load_graded_files(name) if each.student in students]
    )
    return replace(told, submissions=(*told.submissions, *faults))


def _is_internal_fault(record: SubmissionRecord) -> bool:
    """Whether it says that headcheck went wrong: no verdict, so the next command tries again."""
    return record.error is not None and record.error.kind == fault.ERROR_KIND


def build_report(begun: Run, stored: Iterable[GradedFile]) -> Report:
    """A report on what is stored, by student, attempt and file."""
    records = tuple(record for each in stored for record in each.records)
    about = begun.manifest
    return Report(
        FORMAT_VERSION, about.headcheck, records, about.sandbox, record_seed(about.case_seed)
    )


def group_by_content(
    submitted_files: Iterable[SubmittedFile], chosen: Settings
) -> list[ContentGroup]:
    """What was handed in, the same bytes together, in the order of the first."""
    limit = chosen.get_limits(chosen.exercise).source
    found: dict[tuple[str, str], tuple[FileContent, list[SubmittedFile]]] = {}
    for each in submitted_files:
        content = _read_content(each, limit)
        entry = found.setdefault((content.digest, content.kind), (replace(content, data=None), []))
        entry[1].append(each)
    return [ContentGroup(content, tuple(listed)) for content, listed in found.values()]


def _read_content(submitted_file: SubmittedFile, limit: int) -> FileContent:
    if submitted_file.submission is None:
        return make_missing_content(submitted_file.problem)
    try:
        return hash_content(
            submission.read_submission(submitted_file.submission, limit),
            submitted_file.submission.kind,
        )
    except UnreadableSubmission as unopened:
        return make_missing_content(str(unopened))


def _get_content_key(group: ContentGroup) -> tuple[str, str]:
    return group.content.digest, group.content.kind


def _grade_groups(
    groups: Sequence[ContentGroup], chosen: Settings, trusted: bool, cluster: str | None = None
) -> Iterator[tuple[ContentGroup, Sequence[SubmissionRecord], SandboxRecord | None]]:
    """Each batch with its bytes and its records, as soon as it is judged.

    Bytes are read again when it is: a class does not fit into memory. If they are others by then,
    nothing is said of it, and the same command judges the new ones.
    """
    limit = chosen.get_limits(chosen.exercise).source
    there: dict[Submission, ContentGroup] = {}
    for group in groups:
        if group.submission is None or group.content.kind == "none":
            yield group, [_make_unreadable_record(group.submitted_files[0], limit, chosen)], None
        else:
            there[group.submission] = group
    if not there:
        return
    ahead = precompile_plans(list(there), chosen) if cluster is None else nullcontext()
    with ahead, _open_sandbox(chosen, trusted, cluster) as server:
        sandbox = SandboxRecord(
            server.isolation_level.name,
            server.isolation_level.layers,
            server.isolation_level.summary,
        )
        graded = worker_pool.grade_all(server, list(there), chosen)
        for handed_in, records in run.track_progress(graded, len(there)):
            group = there[handed_in]
            content = _read_content(group.submitted_files[0], limit)
            if content.digest == group.content.digest:
                yield replace(group, content=content), records, sandbox


def _open_sandbox(chosen: Settings, trusted: bool, cluster: str | None) -> Sandbox | RemoteGrader:
    """Where submissions are judged. Raises SandboxError, and ImportError without Dask."""
    if cluster is None:
        return run.create_sandbox(trusted=trusted, device=chosen.device)
    from grader.course.cluster import Cluster

    return Cluster(cluster, trusted=trusted)


def _make_unreadable_record(
    submitted_file: SubmittedFile, limit: int, chosen: Settings
) -> SubmissionRecord:
    """The record of a file that could not be had."""
    problem = submitted_file.problem
    if submitted_file.submission is not None:
        try:
            submission.read_submission(submitted_file.submission, limit)
        except UnreadableSubmission as unopened:
            problem = str(unopened)
    exercise = chosen.exercise
    most = sum(points.distribute_points(exercise, chosen.points).values()) if exercise else 0.0
    return SubmissionRecord(
        file=submitted_file.file,
        student=submitted_file.student.id,
        exercise=exercise.slug if exercise else None,
        name=None,
        score=0.0,
        max_score=round(most, 6),
        status="not_tried",
        seconds=0.0,
        error=ErrorRecord("unreadable", problem),
    )


# ---------------------------------------------------------------------------- again


@dataclass(frozen=True, slots=True)
class RegradeResult:
    """What judging again gives, beside what stands."""

    manifest: Manifest
    before: tuple[ExerciseResult, ...]
    after: tuple[ExerciseResult, ...]
    stored: tuple[GradedFile, ...]
    """what stands, with the new verdicts"""

    @property
    def score_changes(self) -> list[ScoreChange]:
        """Who would gain or lose."""
        return compare_results(self.before, self.after)


def regrade(store: Store, name: str, chosen: Settings, *, trusted: bool) -> RegradeResult:
    """Judge again what stands under a name. Nobody's grade changes; verdicts are kept as known.

    Raises SandboxError, NoStore, and CohortError where headcheck itself goes wrong.
    """
    last = store.load_newest_run(name).manifest
    wanted = manifest.build_manifest(chosen, last.attempts, last.feedback)
    standing = store.load_graded_files(name)
    with _restore_files(store, standing) as submitted_files:
        known = store.load_judgement_ids(wanted.key)
        todo = [
            b for b in group_by_content(submitted_files, chosen) if _get_content_key(b) not in known
        ]
        for group, records, sandbox in _grade_groups(todo, chosen, trusted):
            if sandbox is not None:
                wanted = replace(wanted, sandbox=sandbox)
            for record in filter(_is_internal_fault, records):
                raise CourseError(f"{record.file}: {record.error and record.error.message}")
            store.save_judgement(None, wanted.key, group.content, (), records)
    judged = store.load_verdicts(wanted.key)
    again = [_replace_records(each, judged) for each in standing]
    overrides = store.load_overrides(name)
    return RegradeResult(
        wanted,
        tuple(compute_results(standing, overrides)),
        tuple(compute_results(again, overrides)),
        tuple(again),
    )


def adopt(store: Store, name: str, regraded: RegradeResult) -> Run:
    """Let the new verdicts stand; what people decided stays."""
    begun = store.begin(name, regraded.manifest)
    known = store.load_judgement_ids(regraded.manifest.key)
    store.link_judgements(
        begun,
        [(_restore_submitted_file(e, None), known[e.content, e.kind]) for e in regraded.stored],
    )
    return begun


@contextmanager
def _restore_files(store: Store, stored: Sequence[GradedFile]) -> Iterator[list[SubmittedFile]]:
    """What is stored as files of a private folder, for as long as the context lasts."""
    with scratch.make_folder() as folder:
        places: dict[tuple[str, str], Path | None] = {}
        for each in stored:
            which = (each.content, each.kind)
            if which in places:
                continue
            data = store.load_content(each.content)
            places[which] = None if data is None else folder / f"{each.content}.{each.kind}"
            if data is not None:
                files.write(folder / f"{each.content}.{each.kind}", data)
        yield [_restore_submitted_file(each, places[each.content, each.kind]) for each in stored]


def _restore_submitted_file(stored: GradedFile, path: Path | None) -> SubmittedFile:
    """As it was taken in once."""
    error = next((r.error.message for r in stored.records if r.error is not None), "")
    return SubmittedFile(
        student=Student(stored.student, stored.name, email=stored.email),
        handle=stored.handle,
        file=stored.file,
        attempt=stored.attempt,
        late=stored.late,
        submitted=stored.submitted_at,
        submission=None
        if path is None
        else Submission(path, stored.file, submitted_by=stored.student),
        problem="" if path is not None else error,
    )


def _replace_records(
    stored: GradedFile, judged: Mapping[tuple[str, str], Sequence[SubmissionRecord]]
) -> GradedFile:
    """The same with other verdicts."""
    records = judged[stored.content, stored.kind]
    named = tuple(replace(r, file=stored.file, student=stored.student) for r in records)
    return replace(stored, records=named)


# ---------------------------------------------------------------------------- replay


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """A student's files judged again as they were then."""

    stored: tuple[GradedFile, ...]
    report: Report
    differences: tuple[str, ...]
    """versions that are others now; with none, the verdicts must be the same"""

    @property
    def same(self) -> bool:
        """Whether the verdicts are those that are stored, but for how long they took."""
        then = [_drop_seconds(r) for each in self.stored for r in each.records]
        return then == [_drop_seconds(r) for r in self.report.submissions]


def replay(store: Store, name: str, student: str, *, trusted: bool) -> ReplayResult:
    """Judge a student's files again with the settings of the run that they stand in.

    Nothing is written. Raises NoStore, BadManifest, SandboxError.
    """
    stored = store.load_student_files(name, student)
    then = next(each for each in store.list_runs() if each.id == stored[0].run).manifest
    chosen = then.settings
    now = manifest.build_manifest(chosen)
    with _restore_files(store, stored) as submitted_files:
        judged = {
            _get_content_key(group): records
            for group, records, _ in _grade_groups(
                group_by_content(submitted_files, chosen), chosen, trusted
            )
        }
    again = [record for each in stored for record in _replace_records(each, judged).records]
    said = (("headcheck", then.headcheck, now.headcheck), ("torch", then.torch, now.torch))
    differ = [f"{what} {old} then, {new} now" for what, old, new in said if old != new]
    differ += ["the claims are others now"] if then.judge != now.judge else []
    differ += ["the cases are others now"] if then.plan != now.plan else []
    return ReplayResult(
        tuple(stored),
        Report(
            FORMAT_VERSION, get_version(), tuple(again), then.sandbox, record_seed(then.case_seed)
        ),
        tuple(differ),
    )


def _drop_seconds(record: SubmissionRecord) -> SubmissionRecord:
    return replace(record, seconds=0.0)
