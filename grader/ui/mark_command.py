"""The command `headcheck mark`: marks by hand, one at a time or from a sheet."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import click

from headcheck.grader.ui.course_options import (
    get_author,
    get_slug,
    open_store,
    parse_student,
    store_option,
)
from headcheck.properties.counting import count

if TYPE_CHECKING:
    from headcheck.grader.course.marks import MarkedCriterion
    from headcheck.grader.course.results import ExerciseResult
    from headcheck.grader.course.store.records import Mark
    from headcheck.grader.course.store.store import Store


@click.command()
@click.argument("who", metavar="RUN[/STUDENT]")
@click.argument("criterion", required=False)
@click.argument("points", required=False)
@store_option(required=True)
@click.option("--exercise", metavar="SLUG|FOLDER", help="The exercise, if the run has several.")
@click.option("--comment", metavar="TEXT", help="A comment for the student.")
@click.option("--clear", is_flag=True, help="Remove the mark that was given before.")
@click.option(
    "--from",
    "sheet",
    type=click.Path(path_type=Path),
    help="Take the marks from this sheet, which `export --format marks` wrote.",
)
def mark(
    who: str,
    criterion: str | None,
    points: str | None,
    location: str,
    exercise: str | None,
    comment: str | None,
    clear: bool,
    sheet: Path | None,
) -> None:
    """Mark by hand what the rubric of the course file names. Marks outlast every regrading.

    RUN/STUDENT alone shows the marks of a student, with who gave them and when. With --from, either
    the whole sheet is taken or nothing.
    """
    single = [criterion, points, exercise, comment, clear or None]
    if sheet is not None:
        if any(each is not None for each in single):
            raise click.UsageError("--from takes everything from the sheet: give only RUN with it")
        with open_store(location) as store:
            _mark_from_sheet(store, who, sheet)
        return
    if criterion is None and any(each is not None for each in (points, comment, clear or None)):
        raise click.UsageError("name a criterion of the rubric before the points")
    if criterion is not None and clear == (points is not None):
        raise click.UsageError("give points, or --clear to take earlier ones back")
    run, student = parse_student(who)
    with open_store(location) as store:
        from headcheck.grader.course.result_lookup import find_result

        result = find_result(store, run, student, get_slug(exercise))
        if criterion is None:
            _show_marks(result)
        else:
            entry = _make_entry(result, criterion, points, comment)
            _save(store, run, [entry])
            _tell_change(who, result, find_result(store, run, student, result.exercise))


def _make_entry(
    result: "ExerciseResult", criterion: str, points: str | None, comment: str | None
) -> "Mark":
    """Return the mark that the command gives. Raises MarkError."""
    from headcheck.grader.course.export.mark_sheet import clean_comment, read_points
    from headcheck.grader.course.store.records import Mark

    present = _find_criterion(result, criterion)
    if points is None:
        return Mark(result.student, result.exercise, criterion, None)
    given = read_points(points, present.criterion.points, criterion)
    text = present.comment if comment is None else clean_comment(comment)
    return Mark(result.student, result.exercise, criterion, given, text)


def _find_criterion(result: "ExerciseResult", name: str) -> "MarkedCriterion":
    from headcheck.exercises.contract_checks import suggest
    from headcheck.grader.course.export.mark_sheet import NO_RUBRIC, MarkError
    from headcheck.grader.course.marks import list_criterion_names

    found = next((each for each in result.criteria if each.criterion.name == name), None)
    if found is not None:
        return found
    known = list_criterion_names(result.criteria)
    told = f"there is no criterion {name!r}; {suggest(name, known)}" if known else NO_RUBRIC
    raise MarkError(f"{result.exercise or result.student}: {told}")


def _mark_from_sheet(store: "Store", run: str, path: Path) -> None:
    from headcheck.grader.course.export.mark_sheet import list_cells_of_students, read_marks
    from headcheck.grader.course.export.sheet import read_sheet
    from headcheck.grader.course.result_lookup import load_results

    results = load_results(store, run)
    students = list_cells_of_students({each.student for each in results}, store.get_secret(run))
    entries = read_marks(read_sheet(path), results, students)
    _save(store, run, entries)
    people = count(len({each.student for each in entries}), "student")
    click.echo(f"{run}: changed {count(len(entries), 'mark')} of {people}")


def _save(store: "Store", run: str, entries: "Sequence[Mark]") -> None:
    store.add_decisions([replace(each, run=run, author=get_author()) for each in entries])


def _show_marks(result: "ExerciseResult") -> None:
    from headcheck.grader.course.marks import format_mark
    from headcheck.grader.report.render.lines import align_columns
    from headcheck.grader.report.render.sanitise import sanitise_line

    rows = []
    for each in result.criteria:
        given = each.mark if each.points is not None else None
        about = (given.author, given.created[:16]) if given else ("", "")
        cells = (each.criterion.name, format_mark(each), *about, each.comment)
        rows.append(tuple(map(sanitise_line, cells)))
    for line in align_columns(rows):
        click.echo(line)


def _tell_change(who: str, before: "ExerciseResult", after: "ExerciseResult") -> None:
    from headcheck.grader.report.rounding import format_number

    change = f"{format_number(before.score)} before, {format_number(after.score)} now"
    overridden = ", as set by `headcheck override`" if after.override else ""
    click.echo(f"{who} {after.exercise}: {change}{overridden}")
