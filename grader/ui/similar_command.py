"""The command that looks for similar submissions. Nothing heavy is imported before it is needed."""

import sys
from pathlib import Path

import click

from grader import files
from grader.ui.course_options import open_store, store_option


@click.command()
@click.argument("run")
@store_option(required=True)
@click.option(
    "--known",
    type=click.Path(path_type=Path),
    multiple=True,
    help="A file that everybody had, such as the notebook of the lecture; may be repeated.",
)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for a page, similar.html, side by side."
)
@click.option("--trusted", is_flag=True, help="Also where submissions cannot be confined.")
def similar(
    run: str, location: str, known: tuple[Path, ...], out: Path | None, trusted: bool
) -> None:
    """Find submissions of different students that are alike, whatever their names and layout.

    Likeness is no proof of anything: read both. Nothing of a submission is run.
    Exit code: 0 no two are alike, 1 some are.
    """
    if out is not None:
        files.ensure_writable(out)
    with open_store(location) as store:
        from grader.course.similar import rendering
        from grader.course.similar.documents import compare_run

        found = compare_run(store, run, known, trusted=trusted)
        version = store.load_newest_run(run).manifest.headcheck
    if out is not None:
        files.write(out / "similar.html", rendering.render_page(found, version).encode())
        click.echo(f"similar: {out / 'similar.html'}", err=True)
    click.echo(rendering.format_text(found), nl=False)
    sys.exit(1 if found.similar.groups or found.similar.pairs else 0)
