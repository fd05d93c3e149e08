"""The parts of a submission's text to leave out if it does not fit, and in which order."""

from dataclasses import dataclass, replace

from headcheck.grader.report.render.view import PlaceView, SubmissionView

FOLDED_NOTES = 2
"""how many notes stand below failures; the others are collapsed, unless there is only one other"""


@dataclass(frozen=True, slots=True)
class Folding:
    """The parts of a submission's text that are shown in addition to its failures."""

    numbers: bool = True
    """whether a place has its row of numbers"""
    examples: bool = True
    """whether mistakes have examples"""
    notes: int = FOLDED_NOTES
    """the most notes that are shown; if only one more note remains, it is shown, too"""
    summary: bool = True
    """whether there are sentences about all checks"""
    apart: bool = True
    """whether an empty line stands between mistakes and points"""
    figures: bool = True
    """whether failures include the captions of their figures"""

    def fold_place(self, place: PlaceView | None) -> PlaceView | None:
        """Return a place, perhaps without its numbers."""
        return place if place is None or self.numbers else replace(place, rows=())


FOLDINGS = (
    Folding(),
    Folding(notes=0),
    Folding(numbers=False, notes=0),
    Folding(numbers=False, notes=0, summary=False),
    Folding(numbers=False, notes=0, summary=False, apart=False),
    Folding(numbers=False, notes=0, summary=False, apart=False, figures=False),
    Folding(examples=False, notes=0),
    Folding(numbers=False, examples=False, notes=0),
    Folding(numbers=False, examples=False, notes=0, summary=False),
    Folding(numbers=False, examples=False, notes=0, summary=False, apart=False, figures=False),
)
"""ways to shorten the text, the best first; the first that fits is used"""


def leave_out_figures(view: SubmissionView) -> SubmissionView:
    """Return the view without the captions of its failures' figures."""
    groups = (
        replace(group, failures=tuple(replace(each, evidence=None) for each in group.failures))
        for group in view.groups
    )
    return replace(view, groups=tuple(groups))
