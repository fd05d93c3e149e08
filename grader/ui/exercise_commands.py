"""The commands about exercises: list, show, hint, start. None of them imports torch."""

from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from headcheck.grader.grouped import group_by
from headcheck.grader.ui.course_options import naming_extras
from headcheck.grader.ui.options import load_course_file, make_course_option
from headcheck.properties.counting import count

if TYPE_CHECKING:
    from headcheck.exercises import Exercise
    from headcheck.grader.report.points import Points
    from headcheck.properties.listing.summary import PropertySummary


@click.command("list")
def list_() -> None:
    """List the exercises in teaching order."""
    from headcheck.exercises import ALL

    width = max(len(exercise.slug) for exercise in ALL)
    for exercise in ALL:
        click.echo(f"{exercise.slug:<{width}}  {exercise.title} ({exercise.contract.name})")


@click.command()
@click.argument("slug", metavar="SLUG|FOLDER")
@make_course_option("headcheck.toml here, or of the exercise")
@click.option("--checks", is_flag=True, help="List every check.")
def show(slug: str, course_file: Path | None, checks: bool) -> None:
    """Show the statement of an exercise, and the points of each group of checks."""
    from headcheck.grader.grading.infer import find_exercise
    from headcheck.grader.ui.markdown import print_markdown

    exercise = find_exercise(slug)
    rules = load_course_file(course_file, exercise, Path())
    print_markdown(describe_exercise(exercise, slug, rules.points, checks=checks))


@click.command()
@click.argument("slug", metavar="SLUG|FOLDER")
@click.argument("number", type=click.IntRange(min=1), default=1)
def hint(slug: str, number: int) -> None:
    """Show hint NUMBER on an exercise, the first by default. Later hints tell more."""
    from headcheck.grader.grading.infer import TargetNotFound, find_exercise
    from headcheck.grader.ui.markdown import print_markdown

    hints = find_exercise(slug).hints
    if number > len(hints):
        raise TargetNotFound(f"{slug} has {len(hints)} hints, counted from 1; no hint {number}")
    last = number == len(hints)
    more = "This was the last." if last else f"The next: headcheck hint {slug} {number + 1}"
    print_markdown(f"Hint {number} of {len(hints)}\n\n{hints[number - 1]}\n\n{more}\n")


@click.command()
@click.argument("words", nargs=-1, metavar="[SLUG|FOLDER] [DIRECTORY]")
@click.option(
    "--all", "series", is_flag=True, help="Write every exercise, and a table of contents."
)
@click.option(
    "--form",
    type=click.Choice(["ipynb", "py", "both"]),
    default="ipynb",
    show_default=True,
    help="Write a notebook, a module, or both.",
)
@click.option(
    "--install",
    "requirement",
    metavar="REQUIREMENT",
    default="",
    help="Begin notebooks with a cell by which pip installs this where headcheck is missing, such "
    "as 'headcheck[student] @ git+https://…'.",
)
def start(
    words: tuple[str, ...], series: bool, form: Literal["ipynb", "py", "both"], requirement: str
) -> None:
    """Write the starter of an exercise, or of all, as a notebook or a module.

    Nothing that is there already is overwritten.
    """
    from headcheck.exercises import ALL, starter
    from headcheck.grader.grading import infer

    slugs, folders = ((), words) if series else (words[:1], words[1:])
    if len(folders) > 1 or not (series or slugs):
        raise click.UsageError("write start SLUG [DIRECTORY], or start --all [DIRECTORY]")
    folder = Path(folders[0] if folders else ".")
    if folder.is_file():
        raise click.UsageError(f"{folder} is a file; name a folder")
    with naming_extras():
        if series:
            written = starter.write_starters(ALL, folder, form=form, requirement=requirement)
        else:
            exercise = infer.find_exercise(slugs[0])
            written = starter.write_starter(exercise, folder, form=form, requirement=requirement)
    for path in written:
        click.echo(f"wrote {path}")
    if not (series or exercise.is_ours or (folder / exercise.slug).exists()):
        click.echo(f"to check it there, put a copy of the folder {exercise.slug} beside it")


def describe_exercise(
    exercise: "Exercise",
    slug: str,
    points: "Points | None" = None,
    *,
    checks: bool = False,
) -> str:
    """Describe an exercise and its points in Markdown; with `checks`, list each check."""
    from headcheck.grader.report.points import list_groups
    from headcheck.grader.report.rounding import format_number
    from headcheck.properties.terms.group import PropertyGroup

    groups = group_by(exercise.summaries, lambda each: each.group)
    worth = list_groups(exercise, points)
    lines = [exercise.statement.rstrip(), "", "## What is checked", ""]
    for group in sorted(groups, key=list(PropertyGroup).index):
        most, checked = format_number(worth[group.value]), count(len(groups[group]), "check")
        lines.append(f"- {group.value}: {most} points for {checked}")
        if checks:
            lines += [
                f"  - {each.claim}{_describe_weight(exercise, each)}" for each in groups[group]
            ]
    if not checks:
        lines += ["", f"What each check demands: headcheck show {slug} --checks"]
    hints = len(exercise.hints)
    are = "is" if hints == 1 else "are"
    lines += ["", f"Stuck? There {are} {count(hints, 'hint')}: headcheck hint {slug}"]
    return "\n".join(lines) + "\n"


def _describe_weight(exercise: "Exercise", claimed: "PropertySummary") -> str:
    """Return a note on how else a claim affects the points."""
    if claimed.name == exercise.prerequisite_name:
        return " (If not, there are no points at all.)"
    if claimed.essential:
        return " (If not, there are no points of this group.)"
    return ""
