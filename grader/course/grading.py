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
from grader.course import CohortError
from grader.course.intake import scratch
from grader.course.intake.gather import HandIn, Intake
from grader.course.intake.roster import Student
from grader.course.results import Change, Standing, changes, standings
from grader.course.store import manifest
from grader.course.store.manifest import Manifest
from grader.course.store.records import Content, Run, Stored, content_of, no_content
from grader.course.store.store import Store
from grader.grading.grade import Settings
from grader.grading.precompile import compiling
from grader.grading.worker_pool import Elsewhere, Place
from grader.reading import submission
from grader.reading.submission import Submission, Unopened
from grader.report import points
from grader.report.feedback import EVERYTHING, Feedback
from grader.report.records import (
    FORMAT,
    ErrorRecord,
    Report,
    SandboxRecord,
    SubmissionRecord,
    own_version,
    record_of,
)
from grader.seed import Kind


@dataclass(frozen=True, slots=True)
class Batch:
    """The same bytes, and all that were handed in with them."""

    content: Content
    hand_ins: tuple[HandIn, ...]

    @property
    def submission(self) -> Submission | None:
        """One of the files, to be judged for all."""
        return self.hand_ins[0].submission


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
    wanted = manifest.of(chosen, attempts, feedback or EVERYTHING)
    begin = store.resume if chosen.seed.kind is Kind.SECRET else store.begin
    begun = begin(name, wanted)
    chosen = replace(chosen, seed=begun.manifest.drawn)
    if feedback is not None and feedback != begun.manifest.feedback:
        begun = store.describe(begun, replace(begun.manifest, feedback=feedback))
    key = begun.manifest.key
    known = store.known(key)
    batches = batched(intake.hand_ins, chosen)
    old = [(h, known[_which(b)]) for b in batches if _which(b) in known for h in b.hand_ins]
    store.link(begun, old)
    faults: list[SubmissionRecord] = []
    for batch, records, sandbox in _judged(
        [b for b in batches if _which(b) not in known], chosen, trusted, cluster
    ):
        if sandbox is not None and sandbox != begun.manifest.sandbox:
            begun = store.describe(begun, replace(begun.manifest, sandbox=sandbox))
        faults += [record for record in records if _is_ours(record)]
        if not any(map(_is_ours, records)):
            store.finish(begun, key, batch.content, batch.hand_ins, records)
    store.settle(begun, intake.hand_ins)
    students = {each.student.id for each in intake.hand_ins}
    told = report(begun, [each for each in store.standing(name) if each.student in students])
    return replace(told, submissions=(*told.submissions, *faults))


def _is_ours(record: SubmissionRecord) -> bool:
    """Whether it says that headcheck went wrong: no verdict, so the next command tries again."""
    return record.error is not None and record.error.kind == fault.KIND


def report(begun: Run, stored: Iterable[Stored]) -> Report:
    """A report on what is stored, by student, attempt and file."""
    records = tuple(record for each in stored for record in each.records)
    about = begun.manifest
    return Report(FORMAT, about.headcheck, records, about.sandbox, record_of(about.drawn))


def batched(hand_ins: Iterable[HandIn], chosen: Settings) -> list[Batch]:
    """What was handed in, the same bytes together, in the order of the first."""
    limit = chosen.limits_for(chosen.exercise).source
    found: dict[tuple[str, str], tuple[Content, list[HandIn]]] = {}
    for each in hand_ins:
        content = _content(each, limit)
        entry = found.setdefault((content.digest, content.kind), (replace(content, data=None), []))
        entry[1].append(each)
    return [Batch(content, tuple(listed)) for content, listed in found.values()]


def _content(hand_in: HandIn, limit: int) -> Content:
    if hand_in.submission is None:
        return no_content(hand_in.problem)
    try:
        return content_of(submission.read(hand_in.submission, limit), hand_in.submission.kind)
    except Unopened as unopened:
        return no_content(str(unopened))


def _which(batch: Batch) -> tuple[str, str]:
    return batch.content.digest, batch.content.kind


def _judged(
    batches: Sequence[Batch], chosen: Settings, trusted: bool, cluster: str | None = None
) -> Iterator[tuple[Batch, Sequence[SubmissionRecord], SandboxRecord | None]]:
    """Each batch with its bytes and its records, as soon as it is judged.

    Bytes are read again when it is: a class does not fit into memory. If they are others by then,
    nothing is said of it, and the same command judges the new ones.
    """
    limit = chosen.limits_for(chosen.exercise).source
    there: dict[Submission, Batch] = {}
    for batch in batches:
        if batch.submission is None or batch.content.kind == "none":
            yield batch, [_unread(batch.hand_ins[0], limit, chosen)], None
        else:
            there[batch.submission] = batch
    if not there:
        return
    ahead = compiling(list(there), chosen) if cluster is None else nullcontext()
    with ahead, _place(chosen, trusted, cluster) as server:
        sandbox = SandboxRecord(server.rung.name, server.rung.layers, server.rung.summary)
        for handed_in, records in run.judged(server, list(there), chosen):
            batch = there[handed_in]
            content = _content(batch.hand_ins[0], limit)
            if content.digest == batch.content.digest:
                yield replace(batch, content=content), records, sandbox


def _place(chosen: Settings, trusted: bool, cluster: str | None) -> Place | Elsewhere:
    """Where submissions are judged. Raises SandboxError, and ImportError without Dask."""
    if cluster is None:
        return run.sandbox(trusted=trusted, device=chosen.device)
    from grader.course.cluster import Cluster

    return Cluster(cluster, trusted=trusted)


def _unread(hand_in: HandIn, limit: int, chosen: Settings) -> SubmissionRecord:
    """The record of a file that could not be had."""
    problem = hand_in.problem
    if hand_in.submission is not None:
        try:
            submission.read(hand_in.submission, limit)
        except Unopened as unopened:
            problem = str(unopened)
    exercise = chosen.exercise
    most = sum(points.worth(exercise, chosen.points).values()) if exercise else 0.0
    return SubmissionRecord(
        file=hand_in.file,
        student=hand_in.student.id,
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
class Regrade:
    """What judging again gives, beside what stands."""

    wanted: Manifest
    before: tuple[Standing, ...]
    after: tuple[Standing, ...]
    stored: tuple[Stored, ...]
    """what stands, with the new verdicts"""

    @property
    def changes(self) -> list[Change]:
        """Who would gain or lose."""
        return changes(self.before, self.after)


def regrade(store: Store, name: str, chosen: Settings, *, trusted: bool) -> Regrade:
    """Judge again what stands under a name. Nobody's grade changes; verdicts are kept as known.

    Raises SandboxError, NoStore, and CohortError where headcheck itself goes wrong.
    """
    last = store.newest(name).manifest
    wanted = manifest.of(chosen, last.attempts, last.feedback)
    standing = store.standing(name)
    with _unpacked(store, standing) as hand_ins:
        known = store.known(wanted.key)
        todo = [b for b in batched(hand_ins, chosen) if _which(b) not in known]
        for batch, records, sandbox in _judged(todo, chosen, trusted):
            if sandbox is not None:
                wanted = replace(wanted, sandbox=sandbox)
            for record in filter(_is_ours, records):
                raise CohortError(f"{record.file}: {record.error and record.error.message}")
            store.finish(None, wanted.key, batch.content, (), records)
    judged = store.judged(wanted.key)
    again = [_with(each, judged) for each in standing]
    overrides = store.overrides(name)
    return Regrade(
        wanted,
        tuple(standings(standing, overrides)),
        tuple(standings(again, overrides)),
        tuple(again),
    )


def adopt(store: Store, name: str, regraded: Regrade) -> Run:
    """Let the new verdicts stand; what people decided stays."""
    begun = store.begin(name, regraded.wanted)
    known = store.known(regraded.wanted.key)
    store.link(begun, [(_hand_in(e, None), known[e.content, e.kind]) for e in regraded.stored])
    return begun


@contextmanager
def _unpacked(store: Store, stored: Sequence[Stored]) -> Iterator[list[HandIn]]:
    """What is stored as files of a private folder, for as long as the context lasts."""
    with scratch.folder() as folder:
        places: dict[tuple[str, str], Path | None] = {}
        for each in stored:
            which = (each.content, each.kind)
            if which in places:
                continue
            data = store.content(each.content)
            places[which] = None if data is None else folder / f"{each.content}.{each.kind}"
            if data is not None:
                files.write(folder / f"{each.content}.{each.kind}", data)
        yield [_hand_in(each, places[each.content, each.kind]) for each in stored]


def _hand_in(stored: Stored, path: Path | None) -> HandIn:
    """As it was taken in once."""
    error = next((r.error.message for r in stored.records if r.error is not None), "")
    return HandIn(
        student=Student(stored.student, stored.name, email=stored.email),
        handle=stored.handle,
        file=stored.file,
        attempt=stored.attempt,
        late=stored.late,
        submitted=stored.when,
        submission=None if path is None else Submission(path, stored.file, by=stored.student),
        problem="" if path is not None else error,
    )


def _with(stored: Stored, judged: Mapping[tuple[str, str], Sequence[SubmissionRecord]]) -> Stored:
    """The same with other verdicts."""
    records = judged[stored.content, stored.kind]
    named = tuple(replace(r, file=stored.file, student=stored.student) for r in records)
    return replace(stored, records=named)


# ---------------------------------------------------------------------------- replay


@dataclass(frozen=True, slots=True)
class Replay:
    """A student's files judged again as they were then."""

    stored: tuple[Stored, ...]
    report: Report
    differences: tuple[str, ...]
    """versions that are others now; with none, the verdicts must be the same"""

    @property
    def same(self) -> bool:
        """Whether the verdicts are those that are stored, but for how long they took."""
        then = [_timeless(r) for each in self.stored for r in each.records]
        return then == [_timeless(r) for r in self.report.submissions]


def replay(store: Store, name: str, student: str, *, trusted: bool) -> Replay:
    """Judge a student's files again with the settings of the run that they stand in.

    Nothing is written. Raises NoStore, BadManifest, SandboxError.
    """
    stored = store.of(name, student)
    then = next(each for each in store.runs() if each.id == stored[0].run).manifest
    chosen = then.settings
    now = manifest.of(chosen)
    with _unpacked(store, stored) as hand_ins:
        judged = {
            _which(batch): records
            for batch, records, _ in _judged(batched(hand_ins, chosen), chosen, trusted)
        }
    again = [record for each in stored for record in _with(each, judged).records]
    said = (("headcheck", then.headcheck, now.headcheck), ("torch", then.torch, now.torch))
    differ = [f"{what} {old} then, {new} now" for what, old, new in said if old != new]
    differ += ["the claims are others now"] if then.judge != now.judge else []
    differ += ["the cases are others now"] if then.plan != now.plan else []
    return Replay(
        tuple(stored),
        Report(FORMAT, own_version(), tuple(again), then.sandbox, record_of(then.drawn)),
        tuple(differ),
    )


def _timeless(record: SubmissionRecord) -> SubmissionRecord:
    return replace(record, seconds=0.0)
