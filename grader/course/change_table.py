"""Who gains and who loses by another judging, as text."""

from collections.abc import Sequence

from grader.course.results import Change
from grader.report.render.sanitise import one_line
from grader.report.render.text import aligned

HEAD = ("student", "exercise", "before", "after", "change", "")


def shown(changed: Sequence[Change], count: int, *, would: bool) -> str:
    """A row for each change and a tally of all results, which change or only would."""
    rows = [_row(each) for each in changed]
    counting = [each.gain for each in changed if not each.overridden]
    gain = sum(each > 0 for each in counting)
    verb = "would " if would else ""
    lose, stay = len(counting) - gain, count - len(counting)
    tally = f"{gain} {verb}gain, {lose} {verb}lose, {stay} stay"
    return "\n".join([*(aligned([HEAD, *rows]) if rows else []), tally, ""])


def _row(change: Change) -> tuple[str, ...]:
    return (
        one_line(change.student),
        one_line(change.exercise),
        _number(change.before),
        _number(change.after),
        f"{change.gain:+g}",
        "overridden" if change.overridden else "",
    )


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:g}"
