"""The commands for a whole course. Nothing heavy is imported before a command needs it."""

import contextlib
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headcheck.grader import files
from headcheck.grader.course.formats import FORMATS
from headcheck.grader.ui.course_options import (
    get_author,
    get_slug,
    load_roster,
    make_policy,
    naming_extras,
    open_store,
    parse_student,
    roster_option,
    store_option,
    tell_kept_shares,
    tell_policy,
    warn_about,
)
from headcheck.grader.ui.options import feedback_option, parse_feedback, trusted_option

if TYPE_CHECKING:
    from headcheck.grader.course.export import ExportedFiles, Gradebook
    from headcheck.grader.course.intake.gather import Intake
    from headcheck.grader.course.intake.roster import Roster
    from headcheck.grader.course.store.store import Store
    from headcheck.grader.grading.settings import Settings
    from headcheck.grader.report.course_file import CourseFile
    from headcheck.grader.report.feedback import Feedback
    from headcheck.grader.report.records import Report
    from headcheck.grader.sandbox.grader_side.launch import Zygote


def grade_into_store(
    paths: tuple[str, ...],
    settings: "Settings",
    feedback: "Feedback | None",
    course_settings: dict[str, Any],
    *,
    rules: "CourseFile",
    trusted: bool,
    ahead: "Zygote | None" = None,
) -> "Report":
    """Grade a course into its store; warn about unclear submissions on standard error.

    The report is limited to what students may see; the store holds everything. `ahead` is a zygote
    that was started before.
    """
    name = course_settings["run"] or (settings.exercise.slug if settings.exercise else None)
    if name is None:
        text = "without --exercise the run has no name: add one, such as --run week-1"
        raise click.UsageError(text)
    with open_store(course_settings["location"], create=True) as store:
        from headcheck.grader.course import grading

        roster = load_roster(course_settings["roster"])
        policy = make_policy(rules, name, roster)
        with _gather(paths, course_settings, roster) as intake, naming_extras():
            report = grading.grade(
                store,
                intake,
                settings,
                name,
                attempts=course_settings["attempts"] or "latest",
                trusted=trusted,
                feedback=feedback,
                policy=policy,
                ahead=ahead,
            )
        return _finish_report(store, name, report, roster)


@contextlib.contextmanager
def _gather(
    paths: tuple[str, ...], course_settings: dict[str, Any], roster: "Roster"
) -> Iterator["Intake"]:
    """Yield the submissions of a course; warn about those that are unclear."""
    from headcheck.grader.course.intake.gather import IntakeOptions, gather_submissions

    options = IntakeOptions(
        roster=roster,
        layout=course_settings["layout"] or "auto",
        assignment=course_settings["assignment"] or "",
        attempts=course_settings["attempts"] or "latest",
    )
    with gather_submissions(paths, options) as intake:
        warn_about("not on the roster", intake.not_on_roster)
        warn_about("nobody's, by their names", intake.unattributed)
        warn_about("in doubt", intake.conflicts)
        yield intake


def _finish_report(store: "Store", name: str, report: "Report", roster: Any) -> "Report":
    """Return what students may see of a report, and tell the instructor who is late."""
    from headcheck.grader.course.absent import list_absent
    from headcheck.grader.course.remarks import note_lateness
    from headcheck.grader.course.result_lookup import load_results
    from headcheck.grader.report.feedback import redact_report

    about, results = store.load_newest_run(name).manifest, load_results(store, name)
    tell_policy(about.policy, store.load_graded_files(name), results, roster)
    tell_kept_shares(results)
    warn_about("handed in nothing", tuple(each.id for each in list_absent(results, roster)))
    return note_lateness(redact_report(report, about.feedback), results)


# ---------------------------------------------------------------------------- commands


@click.command()
@store_option(required=True)
def runs(location: str) -> None:
    """List the runs of a store, the oldest first."""
    with open_store(location) as store:
        for each in store.list_runs():
            about = each.manifest
            exercise = about.exercise or "any exercise"
            click.echo(f"{each.created[:16]}  {each.name}  {exercise}  headcheck {about.headcheck}")
        for name in store.list_damaged_runs():
            click.echo(f"{name}: its settings are damaged; grade the class into it again", err=True)


@click.command()
@click.argument("who", metavar="RUN/STUDENT")
@click.argument("score", required=False)
@store_option(required=True)
@click.option("--exercise", metavar="SLUG|FOLDER", help="The exercise, if the run has several.")
@click.option("--reason", default="", help="The reason, kept with the score.")
@click.option("--clear", is_flag=True, help="Remove the score that was set before.")
def override(
    who: str, score: str | None, location: str, exercise: str | None, reason: str, clear: bool
) -> None:
    """Set the score of one answer by hand. It outlasts every regrading.

    If the maximum changes later, the score keeps its share of it.
    """
    if clear == (score is not None):
        raise click.UsageError("give a score, or --clear to take an earlier one back")
    run, student = parse_student(who)
    with open_store(location) as store:
        from headcheck.grader.course.export.mark_sheet import read_points
        from headcheck.grader.course.result_lookup import find_result
        from headcheck.grader.course.store.records import Override
        from headcheck.grader.report.rounding import format_number

        result = find_result(store, run, student, get_slug(exercise))
        points = None if score is None else read_points(score, result.highest, who)
        decided = Override(run, student, result.exercise, points, reason, get_author())
        store.add_decisions([replace(decided, max_score=result.max_score)])
        counts = result.graded if points is None else points
        change = f"{format_number(result.score)} before, {format_number(counts)} now"
        click.echo(f"{who} {result.exercise}: {change}")


@click.command()
@click.argument("who", metavar="RUN/STUDENT")
@click.argument("text")
@store_option(required=True)
@click.option("--exercise", metavar="SLUG|FOLDER", help="The exercise that the comment is about.")
def comment(who: str, text: str, location: str, exercise: str | None) -> None:
    """Attach a comment to one answer; exports carry it as feedback."""
    run, student = parse_student(who)
    with open_store(location) as store:
        from headcheck.grader.course.result_lookup import find_result, load_student_results
        from headcheck.grader.course.store.records import Comment
        from headcheck.grader.report.render.sanitise import sanitise_line

        slug = get_slug(exercise)
        about = "" if slug is None else find_result(store, run, student, slug).exercise
        [result, *_] = load_student_results(store, run, student)
        store.add_decisions([Comment(run, student, about, text, get_author())])
        of = f" of {result.name}" if result.name not in ("", student) else ""
        where = f"the answer to {about}" if about else "the work"
        click.echo(sanitise_line(f"{who}: added a comment on {where}{of}"))


@click.command()
@click.argument("run")
@click.option("--student", required=True, metavar="ID", help="The student whose files are graded.")
@store_option(required=True)
@trusted_option
def replay(run: str, student: str, location: str, trusted: bool) -> None:
    """Grade one student's files again with the stored settings, and compare. Writes nothing.

    Exit code: 0 the same verdicts, 1 others.
    """
    from headcheck.grader import run as runner

    with open_store(location) as store:
        from headcheck.grader.course import regrading

        again = regrading.replay(store, run, student, trusted=trusted)
    runner.show_report(again.report, "text", verbose=True)
    for difference in again.differences:
        click.echo(f"differs: {difference}")
    click.echo("the verdicts are the same" if again.same else "the verdicts are others")
    sys.exit(0 if again.same else 1)


@click.command()
@click.argument("run")
@store_option(required=True)
@click.option("--format", "form", type=click.Choice(list(FORMATS)), required=True)
@roster_option
@click.option(
    "--into",
    type=click.Path(path_type=Path),
    help="What to fill in: the sheet of canvas or moodle-worksheet, the database of nbgrader-db.",
)
@click.option(
    "--anonymous", is_flag=True, help="Write numbers instead of names, the same ones every time."
)
@click.option(
    "--column", default="", metavar="NAME", help="The name of the grade in the gradebook."
)
@click.option(
    "--out-of",
    metavar="POINTS",
    type=click.FloatRange(min=0.01, max=1e6),
    help="Scale all points, so that this is the maximum of every exercise.",
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    help="Write to this file, or for several files to this folder.",
)
@feedback_option
def export(
    run: str,
    location: str,
    form: str,
    roster: Path | None,
    into: Path | None,
    anonymous: bool,
    column: str,
    out_of: float | None,
    out: Path | None,
    feedback: str | None,
) -> None:
    """Write the results of a run for a gradebook or for the students, or write the code.

    It tells students what the run's feedback level allows, unless --feedback says otherwise.
    Exit code: 0 everybody is in it, 1 some are not, as standard error says.
    """
    with open_store(location) as store:
        from headcheck.grader.course.result_lookup import load_code, load_released_results

        results = load_released_results(store, run, parse_feedback(feedback), out_of)
        code = load_code(store, run) if FORMATS[form].needs_files else ()
        secret = store.get_secret(run) if anonymous else ""
    from headcheck.grader.course.absent import add_absent
    from headcheck.grader.course.export import Gradebook, export, sheet
    from headcheck.grader.course.export.gradebook import hide_students
    from headcheck.grader.course.export.mark_sheet import number_students

    students = load_roster(roster)
    results = add_absent(results, students) if FORMATS[form].absent else results
    book = Gradebook(run, tuple(results), students, code=code, column=column)
    if anonymous:
        ids = {each for result in results for each in (result.student, result.handed_in_by)}
        ids |= {file.student for file, _ in code}  # a team's repository has an id, too
        book = hide_students(book, number_students(ids, secret))
    if into is not None and FORMATS[form].fills == "database":
        book = replace(book, database=into.read_bytes())
    elif into is not None:
        book = replace(book, sheet=sheet.read_sheet(into))
    with naming_extras():
        exported = export(book, form)
    _write(exported.files, out)
    _tell_exported(exported, book, form)
    sys.exit(1 if exported.left_out or book.waiting else 0)


def _tell_exported(exported: "ExportedFiles", book: "Gradebook", form: str) -> None:
    """Say on standard error what the files do not say, and who is not in them."""
    from headcheck.grader.course.results import describe_open, find_damaged
    from headcheck.grader.report.collation import collate

    open_marks = describe_open(book.results) if FORMATS[form].contents == "results" else ""
    for remark in filter(None, (*exported.remarks, open_marks)):
        click.echo(f"headcheck: {remark}", err=True)
    warn_about("handed in nothing, so 0 points", tuple(sorted(book.absent, key=collate)))
    warn_about("left out", exported.left_out)
    damaged = find_damaged(book.results)
    busy = tuple(each for each in book.waiting if each not in damaged)
    warn_about("without a score, since the machine was busy: grade again", busy)
    warn_about("whose verdict in the store is damaged: grade again", damaged)


def _write(exported: Mapping[str, bytes], out: Path | None) -> None:
    """Write one file to `out` or standard output, several into the folder `out`."""
    in_folders = any("/" in name for name in exported)
    if len(exported) == 1 and not in_folders and (out is None or not out.is_dir()):
        (data,) = exported.values()
        if out is None:
            click.echo(data, nl=False)
        else:
            files.write(out, data)
        return
    if out is None:
        raise click.UsageError(f"these are {len(exported)} files: give a folder by --out")
    for folder in {out, *((out / name).parent for name in exported)}:
        files.ensure_writable(folder)
    for name, data in exported.items():
        files.write(out / name, data)
