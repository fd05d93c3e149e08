"""Record the outcome of a submission, or the reason why there is none."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from headcheck.exercises import Exercise
from headcheck.grader.grading import counterexample
from headcheck.grader.grading.attempts import Repair
from headcheck.grader.grading.excerpts import SourceLocation
from headcheck.grader.grading.infer import Target
from headcheck.grader.grading.search import SearchResult
from headcheck.grader.reading.submission import Siblings, Submission
from headcheck.grader.report import points
from headcheck.grader.report.points import Points
from headcheck.grader.report.records import (
    Counterexample,
    DiagnosisRecord,
    Excerpt,
    NoteRecord,
    PlaceRecord,
    PropertyRecord,
    RepairRecord,
    SearchRecord,
    SubmissionRecord,
    shorten,
)
from headcheck.properties.contracts.contract import CONSTANT, Contract
from headcheck.properties.families.results import the_dtype_is_kept, the_output_is_finite
from headcheck.properties.harness.case_context import FLOAT32_NOTE
from headcheck.properties.harness.harness import Harness
from headcheck.properties.property import Property, Verdict
from headcheck.properties.terms.depth import Depth
from headcheck.properties.terms.group import PropertyGroup
from headcheck.properties.violations.violation import (
    NOT_FAILED,
    Note,
    Status,
    SubmissionFailed,
    ViolationKind,
)

if TYPE_CHECKING:  # a right answer loads no mistakes
    from headcheck.properties.mistakes.catalogue.symptom import StructuralMistake
    from headcheck.properties.mistakes.recognisers.recogniser import DiagnosedMistake

MAX_PLACED = 6
"""the maximum number of lines of a place around which the source is shown"""

NUMBERS = frozenset(
    {
        PropertyGroup.VALUES,
        PropertyGroup.MASK,
        PropertyGroup.WEIGHTS,
        PropertyGroup.SCALE,
        PropertyGroup.GRADIENTS,
    }
)
"""the groups of properties about the numbers in a result or in its gradients"""
TOLD_OF_ITSELF = {
    the_output_is_finite: ViolationKind.FINITE,
    the_dtype_is_kept: ViolationKind.DTYPE,
}
"""properties of all outputs whose violation makes every comparison of numbers fail, too"""


@dataclass(frozen=True)
class Explained:
    """The explanation of a submission's failures."""

    properties: frozenset[Property] = frozenset()
    """the properties that fail only because of a named mistake"""
    structural: "tuple[DiagnosedMistake, ...]" = ()
    """mistakes outside the equation"""
    faults: tuple[NoteRecord, ...] = ()
    """faults of headcheck that prevented an explanation"""

    def list_named(self, mistakes: "Sequence[DiagnosedMistake]") -> "tuple[DiagnosedMistake, ...]":
        """Return all mistakes except those that the structural ones cause."""
        caused = {name for each in self._list_symptoms() for name in each.causes}
        return (*(each for each in mistakes if each.mistake.name not in caused), *self.structural)

    def is_shown_by(self, verdict: Verdict) -> bool:
        """Whether a verdict shows a mistake outside the equation."""
        return any(each.is_shown_by(verdict) for each in self._list_symptoms())

    def _list_symptoms(self) -> "list[StructuralMistake]":
        return [each.symptoms for each in self.structural if each.symptoms is not None]

    def mark(
        self, records: Sequence[PropertyRecord], verdicts: Sequence[Verdict]
    ) -> list[PropertyRecord]:
        """Return the same records, with the explained ones marked."""
        return [
            self._mark(record, verdict) if verdict.property in self.properties else record
            for record, verdict in zip(records, verdicts, strict=True)
        ]

    def _mark(self, record: PropertyRecord, verdict: Verdict) -> PropertyRecord:
        """Mark a record. Its hint gives the usual reason, and is kept if that is the reason here.

        A hint that comes from reading the submission's code is also a guess, unless a module is
        missing.
        """
        told = verdict.property in TOLD_OF_ITSELF
        if verdict.hint_is_certain or told or self.is_shown_by(verdict):
            return replace(record, follows=True)
        bare = verdict.without_hint()
        message, words = shorten(bare.message), shorten(bare.redacted_message)
        return replace(record, follows=True, message=message, words=words)


@dataclass(frozen=True, slots=True)
class Explanation:
    """What has been found about the failures of a submission; each stage returns more of it."""

    verdicts: Sequence[Verdict]
    """with smallest cases, where these were searched for"""
    mistakes: "tuple[DiagnosedMistake, ...]" = ()
    explained: Explained = field(default_factory=Explained)
    properties: tuple[PropertyRecord, ...] = ()
    place: PlaceRecord | None = None
    diagnosis: tuple[DiagnosisRecord, ...] = ()
    source: tuple[Excerpt, ...] = ()
    search: SearchRecord | None = None
    faults: tuple[NoteRecord, ...] = ()
    """faults of headcheck that made the explanation incomplete"""


def record_definition(
    submission: Submission,
    target: Target,
    began: float,
    verdicts: Sequence[Verdict],
    notes: Sequence[NoteRecord],
    explanation: Explanation,
    step: float,
) -> SubmissionRecord:
    """Return the record of a definition that was judged, with its score rounded to a step."""
    record = SubmissionRecord(
        file=submission.display_path,
        student=submission.student,
        exercise=target.exercise.slug,
        name=target.name,
        score=0.0,
        max_score=0.0,
        status=summarise_status(verdicts).value,
        seconds=time.monotonic() - began,
        properties=explanation.properties,
        notes=tuple(dict.fromkeys((*notes, *explanation.faults))),
        diagnosis=explanation.diagnosis,
        place=explanation.place,
        source=explanation.source,
        search=explanation.search,
        only_thorough=count_only_thorough(target.exercise),
    )
    return points.add_up(record, step)


def count_only_thorough(exercise: Exercise) -> int:
    """Return how many more properties a thorough check of an exercise asks."""
    return len(exercise.at(Depth.THOROUGH).properties) - len(exercise.properties)


def select_certain_notes(harness: Harness, verdicts: Sequence[Verdict]) -> list[Note]:
    """Return the notes of a harness that hold whatever else is wrong with the submission.

    The note about float32 accuracy is only kept if the numbers are right, since wrong numbers may
    come that close by chance.
    """
    about_numbers = (v for v in verdicts if v.property.group in NUMBERS)
    right = all(v.status in NOT_FAILED for v in about_numbers)
    return [note for note in harness.notes.values() if right or note != FLOAT32_NOTE]


def summarise_status(verdicts: Sequence[Verdict]) -> Status:
    """Return one status for a submission, which is mostly the status of its first failure.

    The exception: a submission whose values could be compared counts as failed rather than crashed.
    Without a failure the status is passed, unless something is unsupported or there was no time for
    something.
    """
    failures = (v.status for v in verdicts if v.status not in NOT_FAILED)
    if (first := next(failures, None)) is not None:
        computes = first is Status.CRASHED and _computes_values(verdicts)
        return Status.FAILED if computes else first
    if any(v.unsupported for v in verdicts):
        return Status.NOT_TRIED
    unasked = any(v.status is Status.NOT_ASKED for v in verdicts)
    return Status.NOT_ASKED if unasked else Status.PASSED


def _computes_values(verdicts: Sequence[Verdict]) -> bool:
    """Whether all essential checks of values received values, right or wrong."""
    essential = (v for v in verdicts if v.property.essential)
    ended = {v.status for v in essential if v.property.group is PropertyGroup.VALUES}
    return Status.CRASHED not in ended and bool(ended & {Status.PASSED, Status.FAILED})


def record_properties(
    exercise: Exercise,
    verdicts: Sequence[Verdict],
    given: Points | None,
    harness: Harness,
    searched: SearchResult | None,
) -> list[PropertyRecord]:
    """Return the verdicts with their points, in the form in which a record holds them."""
    worth = points.distribute_points(exercise, given)
    found = frozenset() if searched is None else frozenset(searched.found)
    earned = points.award_points(exercise, verdicts, given, found)
    return [
        PropertyRecord(
            name=verdict.property.name,
            claim=verdict.property.claim,
            group=verdict.property.group.value,
            status=verdict.status.value,
            points=got,
            max_points=worth[verdict.property],
            message=shorten(verdict.message),
            case=verdict.case_description or None,
            counterexample=_build_counterexample(verdict, harness),
            words=shorten(verdict.redacted_message),
            cell=verdict.failure.cell if verdict.failure else None,
            line=verdict.failure.line if verdict.failure else None,
            asked=verdict.asked,
        )
        for verdict, got in zip(verdicts, earned, strict=True)
    ]


def _build_counterexample(verdict: Verdict, harness: Harness) -> Counterexample | None:
    if verdict.case is None or verdict.violation is None:
        return None
    try:
        return counterexample.build_counterexample(harness.create_context(verdict.case))
    except SubmissionFailed:
        return None


def record_verdicts(
    found: Explanation,
    exercise: Exercise,
    given: Points | None,
    harness: Harness,
    searched: SearchResult | None,
) -> Explanation:
    """Add the records of all properties, and of a search, which no report can do without."""
    properties = record_properties(exercise, found.verdicts, given, harness, searched)
    marked = tuple(found.explained.mark(properties, found.verdicts))
    search = None if searched is None else record_search(searched)
    return replace(found, properties=marked, search=search)


def record_search(searched: SearchResult) -> SearchRecord:
    """Return the findings of a search in the form in which a record holds them."""
    names = tuple(prop.name for prop in searched.found)
    return SearchRecord(searched.cases, names, searched.stopped)


def record_warnings(
    warnings: Sequence[Mapping[str, Any]], contract: Contract, status: Status
) -> list[NoteRecord]:
    """Return the relevant warnings of the worker in the form in which a record holds them.

    An unused argument may be the reason for a failure. The warning about it is dropped if nothing
    fails, or if the argument is the maximum length, which a right answer need not use.
    """
    stated = (argument for each in contract.arguments for argument in (each, *each.fields))
    unneeded = {each.name for each in stated if each.quantity in ("context_length", CONSTANT)}
    return [
        _record_warning(each)
        for each in warnings
        if each.get("kind") != "unused_argument"
        or (status is not Status.PASSED and each.get("argument") not in unneeded)
    ]


def _record_warning(warning: Mapping[str, Any]) -> NoteRecord:
    cell, line = warning.get("cell"), warning.get("line")
    return NoteRecord(
        kind=str(warning.get("kind"))[:40],
        message=shorten(str(warning.get("message"))),
        cell=cell if isinstance(cell, int) else None,
        line=line if isinstance(line, int) else None,
    )


def record_repair(repair: Repair, price: float) -> RepairRecord:
    """Return a repair in the form in which a record holds it, at this price in percent."""
    edit, stop = repair.edit, repair.stop
    added_first = edit.line == 0
    return RepairRecord(
        cell=stop.cell if added_first else edit.cell,
        line=(stop.line or 1) if added_first else edit.line,
        stopped=shorten(f"{stop}. {stop.crash}" if stop.crash else str(stop)),
        before=shorten(edit.before),
        after=shorten(edit.after),
        price=price,
        at_head=added_first,
    )


def record_note(note: Note) -> NoteRecord:
    """Return one of the grader's own notes in the form in which a record holds it."""
    return NoteRecord(note.kind, shorten(note.message), note.cell, note.line)


def note_siblings(siblings: Siblings) -> list[NoteRecord]:
    """Say which files next to a submission it uses, and which ones it may not use."""
    used = ["/".join(file.path) for file in siblings.files]
    notes = [f"it uses `{name}`, a file beside it" for name in used]
    notes += [
        f"`{name}`, a file beside it, was not used: it {why}" for name, why in siblings.problems
    ]
    return [NoteRecord("beside", shorten(text)) for text in notes]


def list_locations(
    verdicts: Sequence[Verdict], named: Sequence[DiagnosisRecord], place: PlaceRecord | None
) -> list[SourceLocation]:
    """Return the locations of diagnosed mistakes, of a place and of exceptions in the code."""
    raised = [(v.failure.cell, v.failure.line) for v in verdicts if v.failure is not None]
    told = [(each.cell, each.line) for each in named]
    placed = [] if place is None else [(at.cell, at.line) for at in place.lines]
    return list(dict.fromkeys([*told, *placed[-MAX_PLACED:], *raised]))


def attach_hint(
    verdicts: Sequence[Verdict], warnings: Sequence[Mapping[str, Any]]
) -> list[Verdict]:
    """Return the verdicts, with a warning about missing names as the hint of the first failure.

    A class that lacks a module or reads a notebook variable fails in many ways, and the missing
    name is the likeliest reason for all of them.
    """
    reasons = [
        (str(warning["message"]), kind == "import")
        for kind in ("import", "notebook_variable")
        for warning in warnings
        if warning.get("kind") == kind
    ]
    failures = [
        i for i, v in enumerate(verdicts) if v.case is not None and v.message and not v.unsupported
    ]
    hinted = list(verdicts)
    if not reasons or not failures:
        return hinted
    (reason, certain), first = reasons[0], hinted[failures[0]]
    if reason.removeprefix("it ") not in first.message:
        hinted[failures[0]] = replace(first, hint=reason, hint_is_certain=certain)
    return hinted
