"""Grade one file: the middle of find, infer, check, explain, report.

`grader.run.grade_paths` finds the files and reports on all records. In between, for each file:

1. infer: `infer_targets` reads the outline and chooses definitions and their exercises.
2. check: `check_all` gives a verdict on every property, from batches or by a `LiveChecker`;
   `search_further` tries generated cases, if that is asked for.
3. explain: `explain_failures` counts points, names mistakes, and takes evidence and excerpts.
"""

import contextlib
import gc
import time
from collections.abc import Sequence
from dataclasses import replace

from grader import fault
from grader.batch.check import check_all
from grader.grading import evidence, explain, infer
from grader.grading.excerpts import collect_excerpts
from grader.grading.infer import Target, TargetNotFound
from grader.grading.live_checker import LiveChecker, search_further
from grader.grading.recording import (
    MAX_DEFINITIONS,
    Explanation,
    attach_hint,
    explain_load_error,
    explain_not_found,
    list_locations,
    record_definition,
    record_left_out,
    record_note,
    record_properties,
    record_search,
    record_ungraded,
    record_unreadable,
    record_warning,
    select_certain_notes,
)
from grader.grading.search import (
    SearchCallback,
    SearchResult,
    ignore_search,
)
from grader.grading.settings import Settings
from grader.reading.siblings import gather_siblings
from grader.reading.submission import Submission, UnreadableSubmission, read_submission
from grader.report.records import (
    ErrorRecord,
    SubmissionRecord,
)
from grader.sandbox.grader_side.servers import SandboxError
from grader.sandbox.grader_side.session import ChildFactory, Session
from grader.sandbox.grader_side.subject import ChannelSubject
from properties.harness.harness import Harness
from properties.property import Verdict, VerdictCallback, ignore_verdict
from properties.violation import SubmissionFailed


def grade_file(
    server: ChildFactory,
    submission: Submission,
    settings: Settings,
    on_search: SearchCallback = ignore_search,
) -> list[SubmissionRecord]:
    """Return the records of one file, or one that names an internal error.

    So the rest of a class is still graded. Raises SandboxError.
    """
    try:
        return grade_file_or_raise(server, submission, settings, on_search)
    except SandboxError:
        raise
    except Exception as error:
        problem = ErrorRecord(fault.ERROR_KIND, fault.describe(error))
        return [record_ungraded(submission, settings, time.monotonic(), problem)]


def grade_file_or_raise(
    server: ChildFactory,
    submission: Submission,
    settings: Settings,
    on_search: SearchCallback = ignore_search,
) -> list[SubmissionRecord]:
    """Return the records of one file: one for every definition in it that answers an exercise.

    Whatever is wrong with the file is in the record. Raises only internal errors.
    """
    began, limits = time.monotonic(), settings.get_limits(settings.exercise)
    try:
        data = read_submission(submission, limits.source)
    except UnreadableSubmission as problem:
        return [record_unreadable(submission, settings, str(problem))]
    siblings = gather_siblings(submission, data, limits.source)
    with contextlib.closing(Session(server, data, submission.kind, limits, siblings)) as session:
        targets = infer_targets(session, submission, settings)
        if isinstance(targets, ErrorRecord):
            source = collect_excerpts(session, [(targets.cell, targets.line)])
            return [replace(record_ungraded(submission, settings, began, targets), source=source)]
        records = [
            grade_definition(session, submission, target, settings, on_search=on_search)
            for target in targets[:MAX_DEFINITIONS]
        ]
        if len(targets) > MAX_DEFINITIONS:
            records.append(record_left_out(submission, settings, targets[MAX_DEFINITIONS:]))
    gc.collect()  # a harness and its contexts refer to each other, with all their tensors
    gc.freeze()  # what is left stays, and need not be looked at again after the next file
    return records


def infer_targets(
    session: Session, submission: Submission, settings: Settings
) -> list[Target] | ErrorRecord:
    """Return the definitions to grade and their exercises, or why there are none."""
    try:
        outline = session.read_outline()
    except SubmissionFailed as failed:
        return ErrorRecord("unreadable", failed.message, failed.cell, failed.line)
    try:
        signatures = infer.parse_outline(outline)
        return infer.choose_targets(signatures, settings.exercise, submission.name)
    except TargetNotFound as problem:
        return explain_not_found(str(problem), outline)


def grade_definition(
    reading: Session,
    submission: Submission,
    target: Target,
    settings: Settings,
    on_verdict: VerdictCallback = ignore_verdict,
    on_search: SearchCallback = ignore_search,
) -> SubmissionRecord:
    """Return the record of one definition.

    `on_verdict` gets each verdict as soon as it is known, and `on_search` how far a search is.
    Raises only internal errors.
    """
    began, exercise = time.monotonic(), target.exercise
    contract = replace(exercise.contract, name=target.name)
    session = reading.start_successor(
        settings.get_limits(exercise), by_hand=settings.is_by_hand(exercise)
    )
    with contextlib.closing(session):
        try:
            warnings = session.load(target.name, *(other.name for other in contract.transfer or ()))
            live = LiveChecker(session, Harness(ChannelSubject(session), contract))
            seed, device = settings.seed.value, settings.device
            verdicts = check_all(
                live.harness, exercise, live.check, live.restart, seed, device, on_verdict
            )
            searched = search_further(live, target, settings, verdicts, on_search)
            if searched is not None:
                verdicts = [searched.found.get(v.property, v) for v in verdicts]
            explanation = explain_failures(
                live, target, settings, attach_hint(verdicts, warnings), searched
            )
        except SubmissionFailed as failed:
            error = explain_load_error(failed, target.name)
            source = collect_excerpts(session, [(error.cell, error.line)])
            record = record_ungraded(submission, settings, began, error, target)
            return replace(record, source=source)
    own = [target.note] if target.note else []
    notes = [
        *map(record_warning, warnings),
        *map(record_note, [*own, *select_certain_notes(live.harness, verdicts)]),
    ]
    return record_definition(submission, target, began, verdicts, notes, explanation)


def explain_failures(
    live: LiveChecker,
    target: Target,
    settings: Settings,
    verdicts: Sequence[Verdict],
    searched: SearchResult | None = None,
) -> Explanation:
    """Return points, diagnosed mistakes, evidence and excerpts. Raises SubmissionFailed."""
    session, harness = live.session, live.harness
    for _ in session.iter_tries():
        with contextlib.suppress(SubmissionFailed):  # the verdicts stand, and are reported
            live.revive()
        properties = record_properties(
            target.exercise, verdicts, settings.points, harness, searched
        )
        mistakes = explain.diagnose_failures(session, harness, verdicts, settings.device)
        diagnosis = explain.record_diagnoses(session, mistakes)
        if session.is_alive:
            properties = evidence.attach_evidence(properties, verdicts, harness, mistakes)
        source = collect_excerpts(session, list_locations(verdicts, diagnosis))
    record = None if searched is None else record_search(searched)
    return Explanation(tuple(properties), tuple(diagnosis), tuple(source), record)
