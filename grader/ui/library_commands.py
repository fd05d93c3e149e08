"""The commands about code that one trusts: `verify` and `replay-case`.

They do what the pytest plugin does, without a test that somebody has to write.
"""

import sys
from pathlib import Path

import click

PLUGIN = "headcheck.grader.ui.pytest_plugin.plugin"
REPORT = "headcheck.grader.ui.pytest_plugin.verify_report"
OUTPUT = ("--tb=no", "-rN", "--no-header")
"""options with which pytest leaves the output to the report"""
EXIT_CODES = {0: 0, 1: 1}
"""exit codes of pytest and ours for them; any other code means that nothing was tried"""

contract_option = click.option(
    "--contract", metavar="FILE|FOLDER", help="The contract that the code must keep."
)
exercise_option = click.option(
    "--exercise", metavar="SLUG|FOLDER", help="The exercise that the code answers."
)
course_option = click.option(
    "--course", metavar="FILE", help="The course file, which sets how much feedback to give."
)


@click.command()
@click.argument("names", nargs=-1, metavar="[PACKAGE.MODULE:NAME|FILE.py:NAME]...")
@contract_option
@exercise_option
@course_option
@click.option(
    "--sizes", metavar="RULES", help='The sizes that the code supports: "head_dim=even tokens<=64".'
)
@click.option(
    "--device",
    "devices",
    multiple=True,
    metavar="DEVICE",
    help="A device to try it on. It may be repeated.",
)
@click.option(
    "--cases",
    type=click.Choice(["bank", "search", "both"]),
    default="both",
    show_default=True,
    help="Try the fixed cases, cases that Hypothesis draws, or both.",
)
@click.option("-x", "--exitfirst", is_flag=True, help="Stop after the first failure.")
@click.option("-k", "chosen", metavar="EXPRESSION", help="Try the properties that it selects.")
@click.option("-q", "--quiet", is_flag=True, help="Print the first failure and the counts alone.")
def verify(
    names: tuple[str, ...],
    contract: str | None,
    exercise: str | None,
    course: str | None,
    sizes: str | None,
    devices: tuple[str, ...],
    cases: str,
    exitfirst: bool,
    chosen: str | None,
    quiet: bool,
) -> None:
    """Verify implementations of attention, as `pytest --headcheck` does.

    Without a name: those of [tool.headcheck.targets] in pyproject.toml. Without a contract or an
    exercise a class is judged as what it computes, and what was assumed is printed.

    Prints the first failure when it is found; at the end what failed, and what was skipped and why.
    `pytest --headcheck` prints every message.

    The code runs unconfined, as in your own tests: verify only code that you trust.

    Exit code: 0 every property holds, 1 not all do, 2 nothing was tried.
    """
    import subprocess  # here, so that other commands start faster

    options: list[tuple[str, ...]] = [("--headcheck", name) for name in names]
    options = options or [("--headcheck-targets",)]
    options += [("--device", device) for device in devices]
    said = {
        "--contract": contract,
        "--exercise": exercise,
        "--course": course,
        "--headcheck-sizes": sizes,
        "-k": chosen,
    }
    options += [(option, text) for option, text in said.items() if text is not None]
    options += [("--exitfirst",)] * exitfirst
    words = [word for option in options for word in option]
    detail = f"--verbosity={-2 if quiet else -1}"
    # In a process of its own, which has imported nothing. pytest would rewrite the assertions of
    # all modules of headcheck, which takes longer than importing them.
    command = [sys.executable, "-m", "pytest", *_load_plugins(), "--assert=plain", *OUTPUT, detail]
    done = subprocess.run([*command, "--headcheck-cases", cases, *words], check=False)
    sys.exit(EXIT_CODES.get(done.returncode, 2))


def _load_plugins() -> list[str]:
    """Return the options that load the plugins which pytest does not load automatically."""
    from importlib.metadata import entry_points

    installed = any(found.value == PLUGIN for found in entry_points(group="pytest11"))
    needed = [REPORT] if installed else [PLUGIN, REPORT]
    return [word for name in needed for word in ("-p", name)]


@click.command("replay-case")
@click.argument("case")
@click.argument("name", metavar="FILE.py:NAME|PACKAGE.MODULE:NAME")
@exercise_option
@contract_option
@course_option
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
