"""`headcheck bank`: show and write the answers that are kept next to the exercises.

Nothing heavy is imported before a command needs it.
"""

from pathlib import Path

import click

from headcheck.grader import files
from headcheck.properties.counting import count


@click.group()
def bank() -> None:
    """Show or write the known right and wrong answers to an exercise."""


@bank.command()
@click.argument("which", metavar="SLUG|FOLDER[/NAME]")
def show(which: str) -> None:
    """List the answers to an exercise, or print the source of one."""
    from headcheck.exercises.answers import find_answer, load_bank
    from headcheck.grader.grading.infer import find_exercise

    slug, slash, name = _split(which)
    exercise = find_exercise(slug)
    if slash:
        click.echo(find_answer(exercise, name).source, nl=False)
    else:
        answers = load_bank(exercise)
        width = max(len(answer.name) for answer in answers)
        for each in answers:
            click.echo(f"{each.kind:<5}  {each.name:<{width}}  {each.description}")


def _split(which: str) -> tuple[str, str, str]:
    """Separate an answer's name from its exercise, which may be named by the path of its folder."""
    from headcheck.exercises import BY_SLUG

    parts = which.partition("/")
    if parts[0] in BY_SLUG:
        return parts
    whole = "/" not in which or Path(which).is_dir()
    return (which, "", "") if whole else which.rpartition("/")


@bank.command()
@click.argument("slug", metavar="SLUG|FOLDER")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
def write(slug: str, folder: Path) -> None:
    """Write every answer to an exercise into FOLDER/right and FOLDER/wrong, as modules."""
    from headcheck.exercises.answers import load_bank, write_answer
    from headcheck.grader.grading.infer import find_exercise

    answers = load_bank(find_exercise(slug))
    for kind in ("right", "wrong"):
        files.ensure_writable(folder / kind)
    for answer in answers:
        write_answer(answer, folder / answer.kind)
    click.echo(f"wrote {count(len(answers), 'answer')} into {folder}")
