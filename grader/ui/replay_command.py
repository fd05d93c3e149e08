"""The command `headcheck replay-case`."""

import sys
from pathlib import Path

import click


@click.command("replay-case")
@click.argument("case")
@click.argument("name", metavar="FILE.py:NAME|PACKAGE.MODULE:NAME")
@click.option("--exercise", metavar="SLUG|FOLDER", help="The exercise that the code answers.")
@click.option("--contract", metavar="FILE|FOLDER", help="The contract that the code must keep.")
@click.option(
    "--course", metavar="FILE", help="The course file, which sets how much feedback to give."
)
@click.option("--property", "prop", required=True, metavar="NAME", help="The property to try.")
@click.option("--sizes", metavar="RULES", help="The sizes that the code supports, if not all.")
def replay_case(case: str, name: str, prop: str, **options: str | None) -> None:
    """Try one property on one CASE, as a failing test of `pytest --headcheck` prints it.

    The code is trusted: it runs in this process.

    Exit code: 0 the property holds there, 1 it does not, 2 there is nothing to try.
    """
    from headcheck.grader.ui.pytest_plugin.replay import ReplayError, replay
    from headcheck.grader.ui.pytest_plugin.target_settings import Setting, TargetSettings
    from headcheck.properties.violations.violation import Status

    sys.path.append(str(Path.cwd()))  # where `python -m` would look for a package
    said = {key: Setting(text, f"--{key}") for key, text in options.items() if text}
    verdict, told = replay(case, TargetSettings(Setting(name, "NAME"), **said), prop)
    if verdict.unsupported:
        raise ReplayError(f"not supported: {verdict.failure}")
    holds = verdict.status is Status.PASSED
    click.echo(f"holds: {verdict.property.claim}" if holds else told)
    sys.exit(0 if holds else 1)
