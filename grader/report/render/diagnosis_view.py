"""Views of diagnosed mistakes: a headline, with a sentence and a place for each."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from headcheck.grader.report.records import DiagnosisRecord, ExampleRecord, NoteRecord, PlaceRecord
from headcheck.grader.report.render.sanitise import sanitise
from headcheck.properties.counting import count
from headcheck.properties.violations.violation import format_location


@dataclass(frozen=True, slots=True)
class DiagnosisView:
    """The mistakes that explain a submission, and a headline on how many answers they explain."""

    headline: str
    sentences: tuple[str, ...]
    examples: tuple[ExampleRecord | None, ...] = ()
    """one example, or None, for each sentence"""
    any_compared: bool = False
    """whether one of the mistakes is in the computation"""
    reasons: tuple[str, ...] = ()
    """why each mistake is made, or an empty text"""


def view_diagnosis(
    mistakes: Sequence[DiagnosisRecord],
    place: PlaceRecord | None = None,
    notes: Sequence[NoteRecord] = (),
) -> DiagnosisView | None:
    """Return the view of the diagnosed mistakes, if there are any.

    A single mistake is told without a line where its place is told, which has this line. A note
    that explains a mistake stands with it.
    """
    if not mistakes:
        return None
    # A mistake that is known by the checks that fail was compared with no answers.
    compared = all(m.cases_tried for m in mistakes)
    told = {(each.cell, each.line) for each in place.lines} if place else set()
    if len(mistakes) == 1 and (mistakes[0].cell, mistakes[0].line) in told:
        mistakes = [replace(mistakes[0], cell=None, line=None)]
    return DiagnosisView(
        _describe_found(mistakes, compared=compared),
        tuple(sanitise(m.sentence) + _tell_where_to_look(m) for m in mistakes),
        tuple(m.example for m in mistakes),
        any(m.cases_tried for m in mistakes),
        tuple(_explain(mistake, notes) for mistake in mistakes),
    )


def list_apart(
    notes: Sequence[NoteRecord], mistakes: Sequence[DiagnosisRecord]
) -> Sequence[NoteRecord]:
    """Return the notes that stand with no mistake."""
    told = [note for mistake in mistakes for note in _list_explaining(mistake, notes)]
    return [note for note in notes if note not in told]


def _list_explaining(mistake: DiagnosisRecord, notes: Sequence[NoteRecord]) -> Sequence[NoteRecord]:
    """Return the notes that say why a mistake is made: an argument at its line is never used."""
    at = mistake.cell, mistake.line
    return [n for n in notes if n.kind == "unused_argument" and (n.cell, n.line) == at]


def _explain(mistake: DiagnosisRecord, notes: Sequence[NoteRecord]) -> str:
    """Return the notes that say why a mistake is made; empty if there are none."""
    return " ".join(f"{sanitise(note.message)}." for note in _list_explaining(mistake, notes))


def _describe_found(mistakes: Sequence[DiagnosisRecord], *, compared: bool) -> str:
    """Return how many mistakes were found, and how many answers they explain."""
    many, matched, tried = len(mistakes), mistakes[0].cases_matched, mistakes[0].cases_tried
    number = {1: "One", 2: "Two"}.get(many, many)
    found = f"{number} {'mistake was' if many == 1 else 'mistakes were'} found"
    if not compared:
        return f"{found}:"
    if matched == tried == 2:
        share = "both inputs"
    elif matched == tried != 1:
        share = f"all {tried} inputs"
    else:
        share = f"{matched} of {count(tried, 'input')}"
    explain = "it explains" if many == 1 else "they explain"
    return f"{found}; {explain} the answers to {share} tried:"


def _tell_where_to_look(mistake: DiagnosisRecord) -> str:
    """Return a place related to a mistake; the fault itself may be nearby."""
    place = format_location(mistake.cell, mistake.line)
    return place.replace("(", "(look at ", 1)


def name_columns(example: ExampleRecord) -> tuple[str, str, str]:
    """Return the titles of an example's three matrices."""
    return example.given, f"right {example.result}", f"{example.result} with this mistake"
