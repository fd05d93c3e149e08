"""The command `headcheck dashboard`: pages about a run, for the instructor."""

import secrets
from datetime import datetime
from pathlib import Path

import click

from headcheck.grader import files
from headcheck.grader.ui.course_options import load_roster, open_store, roster_option, store_option
from headcheck.grader.ui.options import parse_feedback


@click.command()
@click.argument("run")
@store_option(required=True)
@roster_option
@click.option(
    "--anonymous", is_flag=True, help="Show numbers instead of names, and no pages of students."
)
@click.option(
    "--out",
    type=click.Path(path_type=Path),
    required=True,
    help="Write the pages into this folder.",
)
@click.option(
    "--feedback",
    metavar="LEVEL",
    help="Tell only what students may see at this level: name, message, case or full.",
)
def dashboard(
    run: str, location: str, roster: Path | None, anonymous: bool, out: Path, feedback: str | None
) -> None:
    """Write a page about a run: scores, shared mistakes, the checks failed most, every student.

    It is for the instructor, and tells everything. With --feedback it tells what students may see.
    """
    files.ensure_writable(out)
    level = parse_feedback(feedback)
    with open_store(location) as store:
        from headcheck.grader.course.result_lookup import load_released_results, load_results

        released = level is not None
        results = load_released_results(store, run, level) if released else load_results(store, run)
        newest = store.load_newest_run(run)
    from headcheck.grader.course.absent import add_absent
    from headcheck.grader.course.dashboard import anonymise, render, render_pages
    from headcheck.grader.course.export import Gradebook

    students = load_roster(roster)
    book = Gradebook(run, tuple(add_absent(results, students)), students)
    version, day = newest.manifest.headcheck, datetime.fromisoformat(newest.created).date()
    pages = {}
    if anonymous:
        book = anonymise(book, secrets.token_hex())
    else:
        pages = render_pages(book, version, day)
    pages["index.html"] = render(book, version, tuple(pages), day=day)
    for name, text in pages.items():
        files.write(out / name, text.encode())
    click.echo(f"dashboard: {out / 'index.html'}", err=True)
