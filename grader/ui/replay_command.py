"""The command `headcheck replay-case`."""

import sys
from pathlib import Path

import click


@click.command("replay-case")
@click.argument("case")
@click.argument("name", metavar="FILE.py:NAME|PACKAGE.MODULE:NAME")
@click.option("--exercise", "slug", required=True, metavar="SLUG|FOLDER", help="What it answers.")
@click.option("--property", "prop", required=True, metavar="NAME", help="What is tried.")
@click.option("--sizes", default="", metavar="RULES", help="The sizes that it has, if not all.")
def replay_case(case: str, name: str, slug: str, prop: str, sizes: str) -> None:
    """Try one property on one CASE, the line that a failing test of `pytest --headcheck` prints.

    The code is trusted: it runs in this process.

    Exit code: 0 the property holds there, 1 it does not, 2 there is nothing to try.
    """
    from grader.grading import infer
    from grader.ui.pytest_plugin.replay import ReplayError, replay
    from properties.violation import Status

    sys.path.append(str(Path.cwd()))  # where `python -m` would look for a package
    verdict = replay(case, name, infer.find_exercise(slug), prop, sizes)
    if verdict.unsupported:
        raise ReplayError(f"not supported: {verdict.failure}")
    holds = verdict.status is Status.PASSED
    click.echo(f"holds: {verdict.property.claim}" if holds else verdict.message)
    sys.exit(0 if holds else 1)
