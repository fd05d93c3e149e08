"""Grade a course into a store.

Files that have a judgement in the store are not graded again, and each file is saved as soon as it
is graded. So an interrupted command can simply be repeated, and unchanged files are not graded
twice.
"""

import itertools
import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import click

from headcheck.exercises import BY_SLUG
from headcheck.grader import run
from headcheck.grader.course.intake.gather import Intake, SubmittedFile
from headcheck.grader.course.policy import Policy
from headcheck.grader.course.store import bundle, manifest
from headcheck.grader.course.store.claims import Claims, open_claims
from headcheck.grader.course.store.manifest import Manifest
from headcheck.grader.course.store.records import FileContent, GradedFile, Run, make_missing_content
from headcheck.grader.course.store.store import Store
from headcheck.grader.grading.precompile import precompile_plans
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.ungraded import record_unreadable
from headcheck.grader.reading import submission
from headcheck.grader.reading.siblings import gather_siblings
from headcheck.grader.reading.submission import Submission, UnreadableSubmission
from headcheck.grader.report import points
from headcheck.grader.report.feedback import FULL_FEEDBACK, Feedback
from headcheck.grader.report.records import (
    FORMAT_VERSION,
    ErrorRecord,
    Report,
    SandboxRecord,
    SubmissionRecord,
    record_seed,
)
from headcheck.grader.sandbox.grader_side.launch import Zygote
from headcheck.grader.seed import SeedKind

POLL_S = 0.5
"""how often a command looks whether what others have taken is done or free"""


@dataclass(frozen=True, slots=True)
class ContentGroup:
    """Some bytes and all files that consist of them; the first file is graded for all of them."""

    content: FileContent
    submitted_files: tuple[SubmittedFile, ...]

    @property
    def is_readable(self) -> bool:
        """Whether there are bytes to grade."""
        return self.content.kind != "none"


GradedGroup = tuple[ContentGroup, Sequence[SubmissionRecord], SandboxRecord | None]
"""a group with its bytes, its records, and how its submission was confined"""


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
    ahead: Zygote | None = None,
) -> Report:
    """Grade files without a judgement, and report on the whole intake.

    The feedback level and the policy are kept with the run, from the last command that set them.
    `ahead` is a zygote that was started before. Raises SandboxError if submissions are neither
    confined nor trusted.
    """
    if name in store.list_damaged_runs():
        text = "the earlier settings are damaged; the seed, the deadlines and the groups are new"
        click.echo(f"{name}: {text}, as this command says", err=True)
    kept = policy or store.find_policy(name)
    planned = manifest.build_manifest(settings, attempts, feedback or FULL_FEEDBACK, kept)
    begin = store.resume if settings.seed.kind is SeedKind.SECRET else store.begin
    begun = begin(name, planned)
    settings = replace(settings, seed=begun.manifest.case_seed)
    begun = store.keep_rules(begun, feedback or begun.manifest.feedback, kept)
    key = begun.manifest.key
    if damaged := store.reopen_damaged(key):
        text = f"damaged verdicts in the store, graded again: {damaged}"
        click.echo(f"headcheck: {text}", err=True)
    groups = group_by_content(intake.submitted_files, settings)
    sandbox_then = score_judged(store, begun.manifest, groups)
    if begun.manifest.sandbox is None and sandbox_then is not None:
        begun = store.update_manifest(begun, replace(begun.manifest, sandbox=sandbox_then))
    known = store.load_judgement_ids(key)
    graded = [each for each in groups if each.content.key in known]
    store.link_judgements(
        begun, [(file, known[g.content.key]) for g in graded for file in g.submitted_files]
    )
    todo = [each for each in groups if each.content.key not in known]
    with open_claims(store.engine, key) as claims:
        for group, records, sandbox in share_groups(claims, todo, settings, trusted, ahead):
            if sandbox is not None and sandbox != begun.manifest.sandbox:
                begun = store.update_manifest(begun, replace(begun.manifest, sandbox=sandbox))
            store.save_judgement(begun, key, group.content, group.submitted_files, records)
    store.link_judged(begun, [(g.content.key, file) for g in todo for file in g.submitted_files])
    store.remove_superseded(begun, intake.submitted_files)
    students = {each.student.id for each in intake.submitted_files}
    return build_report(begun, (e for e in store.load_graded_files(name) if e.student in students))


def score_judged(
    store: Store, planned: Manifest, groups: Sequence[ContentGroup]
) -> SandboxRecord | None:
    """Give stored verdicts the points of these settings, without grading anything again.

    Returns how the submissions of the earlier run were confined; None if there is no such run.
    """
    same = [each for each in store.list_runs() if each.manifest.verdict_key == planned.verdict_key]
    wanted, settings = {each.content.key for each in groups}, planned.settings

    def score(record: SubmissionRecord) -> SubmissionRecord:
        named = settings.exercise
        exercise = named if named and named.slug == record.exercise else None
        exercise = exercise or BY_SLUG.get(record.exercise or "")
        rules = settings.points, settings.rounding, settings.slip
        return points.score_again(record, exercise, *rules)

    for earlier in reversed(same):
        if earlier.key != planned.key:
            store.copy_judgements(earlier.key, planned.key, wanted, score)
    confined = (each.manifest.sandbox for each in reversed(same))
    return next((each for each in confined if each is not None), None)


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


@dataclass(frozen=True, slots=True)
class _Supply:
    """Submissions that are taken when they can be graded."""

    count: int
    taken: Iterator[Submission]

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Submission]:
        return self.taken


def share_groups(
    claims: Claims,
    groups: Sequence[ContentGroup],
    settings: Settings,
    trusted: bool,
    ahead: Zygote | None = None,
) -> Iterator[GradedGroup]:
    """Yield the groups that no other command grades, each with its records to be saved.

    What others have taken is waited for: if they are lost, it can be taken here. So at the end all
    groups are graded, here or by others.
    """
    unreadable = [each for each in groups if not each.is_readable]
    yield from grade_groups(unreadable, settings, trusted)
    waiting = {each.content.key: each for each in groups if each.is_readable}
    claims.announce(waiting)
    told = False
    while claims.waiting:
        if (first := claims.take()) is not None:
            left = [waiting[first], *(waiting[key] for key in claims.waiting.values())]
            taken = (waiting[key] for key in itertools.chain([first], iter(claims.take, None)))
            for graded in grade_groups(left, settings, trusted, ahead, taken):
                yield graded
                claims.finish(graded[0].content.key)  # whoever got it has saved it
            claims.release()  # what changed while it was graded
            ahead = None
        elif claims.waiting:
            if not told:
                text = f"waiting for {len(claims.waiting)} that other commands are grading"
                click.echo(text, err=True)
            told = True
            time.sleep(POLL_S)


def grade_groups(
    groups: Sequence[ContentGroup],
    settings: Settings,
    trusted: bool,
    ahead: Zygote | None = None,
    taken: Iterator[ContentGroup] | None = None,
) -> Iterator[GradedGroup]:
    """Yield each group with its bytes and its records, as soon as it is graded.

    `taken` yields the groups that are to be graded, when they can be; without it, all are. The
    bytes of a group are read a second time for this, because the bytes of a whole class do not
    fit into memory. A file that has changed in the meantime is skipped; repeating the command
    grades it.
    """
    limit = settings.get_limits(settings.exercise).source
    readable: dict[Submission, ContentGroup] = {}
    for group in groups:
        first = group.submitted_files[0]
        if first.submission is None or not group.is_readable:
            problem = _read_content(first, limit)[1]
            yield group, [_make_unreadable_record(first, problem, settings)], None
        else:
            readable[first.submission] = group
    if not readable:
        return
    with (
        precompile_plans(list(readable), settings),
        run.create_sandbox(trusted=trusted, device=settings.device, ahead=ahead) as server,
    ):
        level = server.isolation_level
        sandbox = SandboxRecord(level.name, level.layers, level.summary)
        chosen = groups if taken is None else taken
        files = (each.submitted_files[0].submission for each in chosen)
        supply = _Supply(len(readable), (each for each in files if each in readable))
        for graded_file, records in run.grade_with_progress(server, supply, settings):
            group = readable[graded_file]
            content, _ = _read_content(group.submitted_files[0], limit)
            if content.digest == group.content.digest:
                yield replace(group, content=content), records, sandbox


def _make_unreadable_record(
    submitted_file: SubmittedFile, problem: str, settings: Settings
) -> SubmissionRecord:
    owned = Submission(Path(), submitted_file.file, submitted_by=submitted_file.student.id)
    record = record_unreadable(owned, settings, problem)
    # The problem is kept in full: a regrade computes the content's digest from it.
    return replace(record, seconds=0.0, error=ErrorRecord("unreadable", problem))
