"""The parts of a submission's text to leave out if it does not fit, and in which order."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from headcheck.grader.report.render.views import FailureView, SubmissionView

FOLDED_NOTES = 2
"""how many notes stand below failures; the others are collapsed, unless there is only one other"""
FOLDED_PRINTS = 5
"""how many lines that a submission printed stand below a failure"""


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
    return _change_failures(view, lambda failure: replace(failure, evidence=None))


def fold_prints(view: SubmissionView, more: str) -> SubmissionView:
    """Return the view with the first lines of what was printed, and how many more there are."""

    def fold(failure: FailureView) -> FailureView:
        first, rest = failure.printed[:FOLDED_PRINTS], failure.printed[FOLDED_PRINTS:]
        if len(rest) < 2:
            return failure
        return replace(failure, printed=(*first, f"[… {len(rest)} more lines; {more} shows them]"))

    return _change_failures(view, fold)


def _change_failures(
    view: SubmissionView, change: Callable[[FailureView], FailureView]
) -> SubmissionView:
    groups = (replace(g, failures=tuple(map(change, g.failures))) for g in view.groups)
    return replace(view, groups=tuple(groups))
