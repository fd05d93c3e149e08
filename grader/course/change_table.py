"""Who gains and who loses by another judging, as text."""

from collections.abc import Sequence

from grader.course.results import ScoreChange
from grader.report.render.sanitise import sanitise_line
from grader.report.render.text import align_columns

HEADER = ("student", "exercise", "before", "after", "change", "")


def format_changes(changed: Sequence[ScoreChange], count: int, *, would: bool) -> str:
    """A row for each change and a tally of all results, which change or only would."""
    rows = [_format_row(each) for each in changed]
    counting = [each.gain for each in changed if not each.overridden]
    gain = sum(each > 0 for each in counting)
    verb = "would " if would else ""
    lose, stay = len(counting) - gain, count - len(counting)
    tally = f"{gain} {verb}gain, {lose} {verb}lose, {stay} stay"
    return "\n".join([*(align_columns([HEADER, *rows]) if rows else []), tally, ""])


def _format_row(change: ScoreChange) -> tuple[str, ...]:
    return (
        sanitise_line(change.student),
        sanitise_line(change.exercise),
        _format_number(change.before),
        _format_number(change.after),
        f"{change.gain:+g}",
        "overridden" if change.overridden else "",
    )


def _format_number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
