"""Views of diagnosed mistakes: a headline, with a sentence and a place for each."""

from collections.abc import Sequence
from dataclasses import dataclass

from headcheck.grader.report.records import DiagnosisRecord, ExampleRecord
from headcheck.grader.report.render.sanitise import sanitise
from headcheck.properties.violations.violation import format_location


@dataclass(frozen=True, slots=True)
class DiagnosisView:
    """The mistakes that explain a submission, and a headline on how many answers they explain."""

    headline: str
    sentences: tuple[str, ...]
    examples: tuple[ExampleRecord | None, ...] = ()
    """one example, or None, for each sentence"""
    compared: bool = False
    """whether the answers were compared with the results of such mistakes"""
    any_compared: bool = False
    """whether one of the mistakes is in the computation"""

    @property
    def pronoun(self) -> str:
        """The pronoun for the mistakes in a sentence: "it" or "them"."""
        return "them" if len(self.sentences) > 1 else "it"


def view_diagnosis(mistakes: Sequence[DiagnosisRecord]) -> DiagnosisView | None:
    """Return the view of the diagnosed mistakes, if there are any."""
    if not mistakes:
        return None
    count, matched, tried = len(mistakes), mistakes[0].cases_matched, mistakes[0].cases_tried
    found, it = "One mistake was found", "it explains"
    if count > 1:
        found, it = f"{'Two' if count == 2 else count} mistakes were found", "they explain"
    whole = "both" if tried == 2 else f"all {tried}"
    share = whole if matched == tried != 1 else f"{matched} of {tried}"
    inputs = "input" if tried == 1 else "inputs"
    sentences = tuple(sanitise(m.sentence) + _tell_where_to_look(m) for m in mistakes)
    # A mistake that is known by the checks that fail was compared with no answers.
    compared = all(m.cases_tried for m in mistakes)
    rest = f"; {it} the answers to {share} {inputs} tried:" if compared else ":"
    return DiagnosisView(
        found + rest,
        sentences,
        tuple(m.example for m in mistakes),
        compared,
        any(m.cases_tried for m in mistakes),
    )


def _tell_where_to_look(mistake: DiagnosisRecord) -> str:
    """Return a place related to a mistake; the fault itself may be nearby."""
    place = format_location(mistake.cell, mistake.line)
    return place.replace("(", "(look at ", 1)
