"""A report as plain text, for a terminal, a log or an e-mail."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from itertools import accumulate, chain

from rich.console import Console
from rich.text import Text

from headcheck.grader.report.records import Report
from headcheck.grader.report.render.circumstances import describe_circumstances
from headcheck.grader.report.render.folding import (
    FOLDED_NOTES,
    FOLDINGS,
    Folding,
    fold_prints,
    leave_out_figures,
)
from headcheck.grader.report.render.lines import EMPTY, StyledLine, count_rows, fold_lines, indent
from headcheck.grader.report.render.text_parts import (
    choose_colour,
    render_diagnosis,
    render_failure,
    render_groups,
    render_message,
    render_points,
    render_table,
)
from headcheck.grader.report.render.view import describe_broken, make_view, tally_statuses
from headcheck.grader.report.render.views import (
    FailureView,
    MessageView,
    SubmissionView,
    count_failures,
)
from headcheck.properties.violations.violation import Status

MORE_CLAIMS = 3
"""the most claims of collapsed failures that are listed"""
MAX_LINES = 22
"""the most lines of a collapsed submission, unless its first failures need more"""
Lines = Sequence[StyledLine]


def render(report: Report, more: str = "") -> str:
    """Render the text that a student or an instructor reads.

    `more` names the way to show everything, such as an option. If `more` is given, consequences of
    a mistake are collapsed into one line, and so are parts that do not fit into `MAX_LINES`.
    Without `more` nothing is collapsed.

    Only headlines and rows of the last table begin at the left edge, and each is a single line, so
    that no text from a submission can be mistaken for a verdict.
    """
    return join_lines(iter_lines(report, more))


def join_lines(lines: Iterable[StyledLine]) -> str:
    """Return lines as text, without colours."""
    return "".join(f"{line.text}\n" for line in lines)


def print_lines(console: Console, lines: Iterable[StyledLine]) -> None:
    """Print lines, with colours if the console has them."""
    text = Text()
    for line in lines:
        text.append(line.text, line.style)
        text.append("\n")
    console.print(text, end="", soft_wrap=True, highlight=False, emoji=False)


def iter_lines(report: Report, more: str) -> Iterator[StyledLine]:
    """Yield the lines of the text that `render` returns."""
    views = [make_view(record) for record in report.submissions]
    for i, view in enumerate(views):
        if i:
            yield EMPTY
        yield from fold_lines(_render_folded(view, more)) if more else _render_whole(view)
    if len(views) > 1:
        yield EMPTY
    shown = views if len(views) > 1 else ()
    yield from _render_grades(report, shown, how=not more)


def iter_grades(report: Report) -> Iterator[StyledLine]:
    """Yield the last table, even for one submission, and why some files are not graded.

    The caller shows everything else elsewhere.
    """
    views = [make_view(record) for record in report.submissions]
    yield from _render_grades(report, views)
    yield from fold_lines(_render_reasons(views))


def _render_reasons(views: Sequence[SubmissionView]) -> Iterator[StyledLine]:
    """Render why some files could not be graded."""
    ungraded = [(view.file, view.error) for view in views if view.error is not None]
    if ungraded:
        yield from (EMPTY, StyledLine("Not graded:"))
    for file, error in ungraded:
        yield from indent(2, f"{file}: {error.message}")


def _render_grades(
    report: Report, views: Sequence[SubmissionView], *, how: bool = False
) -> Iterator[StyledLine]:
    """Render the table of these submissions, if there are any, and how they were graded.

    Unless `how` is set, only unusual circumstances are mentioned: a weaker sandbox, or cases that
    differ from those of every check.
    """
    if not report.submissions:
        yield StyledLine("Nothing was graded.")
    if views:
        yield from render_table(views)
        yield EMPTY
        yield StyledLine(tally_statuses([view.status for view in views]))
    told = describe_circumstances(report, whole=how)
    yield from (EMPTY, *map(StyledLine, told)) if told else ()


def _render_whole(view: SubmissionView) -> Iterator[StyledLine]:
    """Render every failed check, with consequences of the mistakes first."""
    yield from _render_above(view, [EMPTY, *render_groups(view.groups)])
    for failure in view.consequences:
        yield from (EMPTY, *render_failure(failure))
    yield from _render_heading(view)
    for failure in view.others:
        yield from (EMPTY, *render_failure(failure))
    yield from _render_below(view, view.summary, view.notes)


def _render_folded(view: SubmissionView, more: str) -> Iterator[StyledLine]:
    """Render one consequence of the mistakes, and other failures as far as there is room.

    There is always room for one other failure, or for the consequence if there are no others. The
    examples of mistakes are shown if they fit, and so are notes.
    """
    view = fold_prints(view, more)
    folded = [list(_render_around(view, more, each)) for each in FOLDINGS]
    yield from next((each for each in folded if count_rows(each) <= MAX_LINES), folded[-1])


def _render_around(view: SubmissionView, more: str, folding: Folding) -> Iterator[StyledLine]:
    view = view if folding.figures else leave_out_figures(view)
    untried = 0 if folding.summary else sum(len(g.untried) + len(g.unasked) for g in view.groups)
    groups = list(render_points(view.groups, untried))
    parting = [EMPTY] if folding.apart or not view.diagnosis else []
    if view.place and not folding.numbers:
        view = replace(view, place=replace(view.place, rows=()))
    above = list(_render_above(view, [*parting, *groups], examples=folding.examples))
    notes = view.notes if not view.failures else _fold_notes(view, folding.notes, more)
    summary = view.short_summary if folding.summary or not view.failures else view.why_nothing
    below = list(_render_below(view, summary, notes))
    room = MAX_LINES - count_rows(above) - count_rows(below)
    needed = count_rows(_render_others(view, 0, more))
    consequences = list(_render_consequences(view, room - needed, more))
    yield from above
    yield from consequences
    yield from _render_others(view, room - count_rows(consequences), more)
    yield from below


def _render_consequences(view: SubmissionView, room: int, more: str) -> Iterator[StyledLine]:
    """Render the effect of the mistakes on one check, and count the checks with the same effect."""
    if view.example is None:
        return
    example = list(render_failure(view.example))
    shown = not view.others or count_rows(example) + 2 <= room
    if shown:
        yield from (EMPTY, *example)
    if folded := view.folded if shown else view.consequences:
        many = count_failures(folded)
        told = describe_broken(many, more=shown, follows=True)
        yield StyledLine(f"  {_tell_more(told, many, more)}")


def _render_others(view: SubmissionView, room: int, more: str) -> Iterator[StyledLine]:
    """Render as many other failures as fit, but at least one, and count the rest."""
    heading = list(_render_heading(view))
    blocks = [(EMPTY, *render_failure(failure)) for failure in view.others]
    rows = list(accumulate(map(count_rows, blocks), initial=count_rows(heading)))[1:]
    # Unless all of them fit, there is a line more, which counts the rest.
    fitting = len(rows) if rows and rows[-1] <= room else sum(n < room for n in rows)
    shown = max(fitting, 1)
    yield from heading
    yield from chain.from_iterable(blocks[:shown])
    if rest := view.others[shown:]:
        claims = list(_list_claims(rest, room - rows[shown - 1] - 1))
        many = count_failures(rest)
        fold = _tell_more(describe_broken(many, more=True), many, more)
        among = ":" if len(claims) == len(rest) else ". Among them:"
        yield StyledLine(f"  {fold}{among if claims else ''}")
        yield from claims


def _list_claims(failures: Sequence[FailureView], room: int) -> Iterator[StyledLine]:
    """List the first claims that fit; a crash does not show that a claim is broken."""
    broken = [failure for failure in failures if failure.status == Status.FAILED]
    lines = [StyledLine(f"    {failure.claim}") for failure in broken[:MORE_CLAIMS]]
    used = accumulate(count_rows([line]) for line in lines)
    yield from (line for line, rows in zip(lines, used, strict=True) if rows <= room)


def _tell_more(told: str, many: int, more: str) -> str:
    return f"{told}; {more} shows {'it' if many == 1 else 'them'}"


def _render_heading(view: SubmissionView) -> Iterator[StyledLine]:
    if view.unexplained:
        yield from (EMPTY, StyledLine(f"  {view.unexplained}", "bold"))


def _render_above(
    view: SubmissionView, groups: Lines, *, examples: bool = True
) -> Iterator[StyledLine]:
    """Render the part above the failures: score, error, mistakes, and groups."""
    headline = f"{view.file}  {view.target}  {view.score}  {view.status}"
    yield StyledLine(headline, f"bold {choose_colour(view.status)}")
    if view.error and view.error.kind == "unwritten":
        yield from indent(2, view.error.message)
    elif view.error:
        yield from render_message("error", view.error, "red")
    for sentence in view.repair:
        yield from indent(2, sentence)
    if view.diagnosis:
        yield EMPTY
        yield from render_diagnosis(view.diagnosis, examples=examples)
    if view.place:
        yield from () if view.diagnosis else (EMPTY,)
        yield from indent(4, view.place.sentence)
        yield from (line for row in view.place.rows for line in indent(6, row))
    if view.failures:
        yield from groups


def _fold_notes(view: SubmissionView, many: int, more: str) -> Sequence[MessageView]:
    """Return the notes, or the first of them and the number of others.

    A note that is already the hint of the first failure is left out. One that may be why something
    fails stands with the failures, whatever the room.
    """
    hint = view.failures[0].hint
    unsaid = [note for note in view.notes if not hint or not note.message.startswith(hint)]
    telling = [note for note in unsaid if note.kind == "unused argument"][:FOLDED_NOTES]
    notes = [*telling, *(note for note in unsaid if note not in telling)]
    many = max(many, len(telling))
    left = len(notes) - many
    if left < 2:
        return notes
    counted = f"and {left} more notes" if many else f"{left} notes"
    return (*notes[:many], MessageView("note", f"{counted}; {more} shows them"))


def _render_below(
    view: SubmissionView, summary: Sequence[str], notes: Sequence[MessageView]
) -> Iterator[StyledLine]:
    """Render the part below the failures: sentences on all checks, and notes."""
    if view.failures and summary:
        yield EMPTY
    for sentence in summary:
        yield from indent(2, sentence)
    if view.failures and notes:
        yield EMPTY
    for note in notes:
        yield from render_message("note", note, hang=8)
