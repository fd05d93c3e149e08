"""The `headcheck` command. Nothing heavy is imported before a command needs it."""

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from grader import fault, files, terminal
from grader.cohort import CohortError, commands
from grader.options import SEEDS, device_option, feedback_option, seed_option, telling

OURS = 2  # exit code for a fault that is ours or the caller's, not the submission's
STARTERS = click.Choice(["ipynb", "py", "both"])
FORMATS = click.Choice(["text", "json", "html", "github"])
AUDITED = click.Choice(["text", "json", "html"])


@dataclass(frozen=True, slots=True)
class Limit:
    """An option for a field of `Limits`."""

    option: str
    field: str
    default: int
    text: str
    real: bool = False
    mebibytes: bool = False


LIMITS = (
    Limit("--call-seconds", "call_s", 10, "Wall time of a call.", real=True),
    Limit("--slow-seconds", "slow_s", 1, "A call that takes longer is slow.", real=True),
    Limit("--slow-calls", "slow_calls", 3, "Slow calls, after which no more are made."),
    Limit("--idle-seconds", "idle_s", 15, "Time asleep in all.", real=True),
    Limit("--read-seconds", "read_s", 60, "Wall time of reading the file.", real=True),
    Limit("--seconds", "wall_s", 120, "Wall time of all else.", real=True),
    Limit("--cpu-seconds", "cpu_s", 60, "Processor time in all."),
    Limit("--memory", "memory", 2048, "Memory, in MiB.", mebibytes=True),
    Limit("--threads", "threads", 16, "Threads at a time."),
    Limit("--open-files", "open_files", 64, "Open files at a time."),
    Limit("--scratch", "scratch", 16, "Files written, in MiB.", mebibytes=True),
    Limit("--reply", "reply", 64, "What one call returns, in MiB.", mebibytes=True),
    Limit("--replies", "replies", 1024, "What all calls return, in MiB.", mebibytes=True),
)


def limits_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that bound what a submission may use; an exercise may have others by default."""
    for limit in reversed(LIMITS):
        kind = click.FloatRange(min=0, min_open=True) if limit.real else click.IntRange(min=1)
        text = f"{limit.text} [default: {limit.default}]"
        command = click.option(limit.option, limit.field, type=kind, help=text)(command)
    trust = "Grade also where submissions cannot be confined: only if you trust each of them."
    return click.option("--trusted", is_flag=True, help=trust)(command)


def _insisted(options: dict[str, Any]) -> dict[str, float]:
    """Takes the limits that were named out of the options; sizes in bytes."""
    named = {limit: options.pop(limit.field) for limit in LIMITS}
    return {
        limit.field: value << 20 if limit.mebibytes else value
        for limit, value in named.items()
        if value is not None
    }


def _ahead(device: str) -> contextlib.AbstractContextManager[Any]:
    """A zygote that gets warm while this process imports what it needs, where there is one."""
    from grader.sandbox import launch

    return launch.ahead(device) or contextlib.nullcontext()


def _tell_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    from grader.report import own_version

    if wanted:
        click.echo(f"headcheck, version {own_version()}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_tell_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Judge implementations of attention by properties that hold of every correct one."""


@cli.command()
@click.argument("paths", nargs=-1, required=True)
@click.option(
    "--exercise", metavar="SLUG", help="The exercise; else told from names and signatures."
)
@click.option("--format", "form", type=FORMATS, default="text", show_default=True)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for report.json and HTML pages."
)
@click.option("--points", type=click.Path(path_type=Path), help="TOML file of points per group.")
@click.option("--by-hand", is_flag=True, help="Put torch's own attention out of reach.")
@device_option
@click.option(
    "--jobs", type=click.IntRange(1), help="How many judge at once; else what is worth it."
)
@seed_option
@feedback_option
@commands.course_options
@limits_options
def grade(
    paths: tuple[str, ...],
    exercise: str | None,
    form: str,
    out: Path | None,
    points: Path | None,
    feedback: str | None,
    seed: int | None,
    trusted: bool,
    **options: Any,
) -> None:
    """Grade files and folders of notebooks and modules. FILE:NAME picks one definition.

    The report goes to standard output; --out also writes report.json, index.html and a page for
    every submission. With --store it is kept, archives and downloads of course systems are taken,
    and the same command goes on where it was interrupted.

    Exit code: 0 all passed, 1 not all passed, 2 nothing could be graded, or --out not written.
    """
    course = commands.taken(options)
    with contextlib.nullcontext() if course else _ahead(options["device"]) as server:
        from grader import run
        from grader.feedback import told
        from grader.seed import for_grading

        drawn = for_grading(seed)
        chosen = run.settings(exercise, points, seed=drawn, limits=_insisted(options), **options)
        tell = telling(feedback)
        if out is not None:
            files.ready(out)  # rather than find out after an hour
        if course is None:
            report = told(run.grade(paths, chosen, trusted=trusted, ahead=server), tell)
        else:
            report = commands.graded(paths, chosen, tell, course, trusted=trusted)
    problem = "" if out is None else run.put(report, out)
    run.show(report, form)
    if problem:
        kept = "" if course is None else ", and the store keeps it"
        fail(f"{problem}. The report is what is printed{kept}.")
    sys.exit(run.exit_code(report))


@cli.command()
@click.argument("path", metavar="FILE[:NAME]")
@click.option(
    "--exercise", metavar="SLUG", help="The exercise; else told from names and signatures."
)
@click.option("--format", "form", type=FORMATS, default="text", show_default=True)
@click.option("--by-hand", is_flag=True, help="Put torch's own attention out of reach.")
@device_option
@click.option("--seed", default=0, show_default=True, type=SEEDS, help="Chooses the cases.")
@click.option("--watch", is_flag=True, help="Check again whenever the file is saved.")
@feedback_option
@limits_options
def check(
    path: str,
    exercise: str | None,
    form: str,
    watch: bool,
    feedback: str | None,
    seed: int,
    trusted: bool,
    **options: Any,
) -> None:
    """Check one file while working on it. The exit code tells: 0 all passed, 1 not yet.

    With --watch it is that of the last check; Ctrl-C ends it.
    """
    with _ahead(options["device"]) as server:
        from grader import run
        from grader.feedback import told
        from grader.seed import given

        named = given(seed)
        chosen = run.settings(exercise, None, seed=named, limits=_insisted(options), **options)
        tell = telling(feedback)
        if watch:
            sys.exit(run.watched(path, chosen, form, tell, trusted=trusted, ahead=server))
        report = told(run.grade((path,), chosen, trusted=trusted, ahead=server), tell)
    run.show(report, form)
    sys.exit(run.exit_code(report))


@cli.command()
@click.argument("slugs", nargs=-1, metavar="[SLUG]...")
@click.option("--format", "form", type=AUDITED, default="text", show_default=True)
@click.option(
    "--jobs", type=click.IntRange(min=1), help="Processes side by side; else one per core."
)
@click.option("--mutants", is_flag=True, help="Judge small changes of the solutions instead.")
def audit(slugs: tuple[str, ...], form: str, jobs: int | None, mutants: bool) -> None:
    """Judge the judge: every known answer to these exercises (or all) against every claim.

    Exit code: 0 when no wrong answer survives, no right one is accused and no claim is idle.
    """
    import os

    from exercises import ALL
    from grader import inference
    from grader.audit import answers, mutated
    from grader.audit import audit as audited
    from grader.render import audit as shown

    exercises = [inference.by_slug(slug) for slug in slugs] or list(ALL)
    choose = mutated if mutants else answers
    wanted = [answer for exercise in exercises for answer in choose(exercise)]
    found = audited(exercises, wanted, jobs or os.cpu_count() or 1)
    render = {"text": shown.text, "json": shown.to_json, "html": shown.html}[form]
    click.echo(render(found), nl=False)
    sys.exit(0 if found.clean else 1)


@cli.command()
def doctor() -> None:
    """Say how well this machine can confine submissions, and what would make it better.

    Exit code: 0 well enough for code of strangers, 1 not.
    """
    from grader import run

    text, enough = run.examined()
    click.echo(text, nl=False)
    sys.exit(0 if enough else 1)


@cli.command("list")
def list_() -> None:
    """List the exercises in teaching order."""
    from exercises import ALL

    width = max(len(exercise.slug) for exercise in ALL)
    for exercise in ALL:
        click.echo(f"{exercise.slug:<{width}}  {exercise.title} ({exercise.contract.name})")


@cli.command()
@click.argument("slug")
def show(slug: str) -> None:
    """Show what an exercise asks, and what its claims are worth."""
    from grader import run

    click.echo(run.shown(slug), nl=False)


@cli.command()
@click.argument("slug")
@click.argument("number", type=click.IntRange(min=1), default=1)
def hint(slug: str, number: int) -> None:
    """Show a hint on an exercise: the first, or number NUMBER. Each leads further."""
    from grader import run

    click.echo(run.hinted(slug, number), nl=False)


@cli.command()
@click.argument("words", nargs=-1, metavar="[SLUG] [DIRECTORY]")
@click.option("--all", "series", is_flag=True, help="Every exercise, and a table of contents.")
@click.option(
    "--form", type=click.Choice(["ipynb", "py", "both"]), default="ipynb", show_default=True
)
def start(words: tuple[str, ...], series: bool, form: Literal["ipynb", "py", "both"]) -> None:
    """Write the starter of an exercise, or of all, as a notebook or a module, into a folder.

    Nothing that is there already is overwritten.
    """
    from exercises import ALL, starter
    from grader import inference

    slugs, folders = ((), words) if series else (words[:1], words[1:])
    if len(folders) > 1 or not (series or slugs):
        raise click.UsageError("write start SLUG [DIRECTORY], or start --all [DIRECTORY]")
    folder = Path(folders[0] if folders else ".")
    if folder.is_file():
        raise click.UsageError(f"{folder} is a file; name a folder")
    if series:
        files = starter.write_all(ALL, folder, form=form)
    else:
        files = starter.write(inference.by_slug(slugs[0]), folder, form=form)
    for written in files:
        click.echo(f"wrote {written}")


@cli.command()
@click.argument("slug")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT.zip")
@click.option("--points", type=click.Path(path_type=Path), help="TOML file of points per group.")
@click.option("--by-hand", is_flag=True, help="Put torch's own attention out of reach.")
@seed_option
@click.option(
    "--minutes",
    type=click.IntRange(3, 40),
    default=10,
    show_default=True,
    help="Gradescope's limit for a submission, as it is set there.",
)
@click.option(
    "--wheel", type=click.Path(path_type=Path), help="headcheck's wheel; else it is made."
)
@feedback_option
@limits_options
def gradescope(
    slug: str,
    out: Path,
    points: Path | None,
    minutes: int,
    wheel: Path | None,
    feedback: str | None,
    seed: int | None,
    trusted: bool,
    **options: Any,
) -> None:
    """Write an autograder for an exercise, to be uploaded to Gradescope.

    The archive holds headcheck with all its solutions: give it to nobody else.
    """
    from grader import inference, run
    from grader.cohort import autograder, manifest
    from grader.cohort.autograder import pack
    from grader.cohort.autograder import wheel as wheels
    from grader.feedback import EVERYTHING
    from grader.points import worth
    from grader.seed import for_grading

    drawn = for_grading(seed)
    chosen = run.settings(slug, points, seed=drawn, limits=_insisted(options), **options)
    tell = telling(feedback) or EVERYTHING
    plan = autograder.Plan(manifest.of(chosen, feedback=tell), trusted)
    made = wheels.own() if wheel is None else wheels.read(wheel)
    files.write(out, pack.archive(plan, made, minutes))
    most = sum(worth(inference.by_slug(slug), chosen.points).values())
    click.echo(f"wrote {out}: {most:g} points, {minutes} minutes; set these on Gradescope")


for command in commands.COMMANDS:
    cli.add_command(command)


def main() -> None:
    """Run the command; every fault is one line, and never a traceback of ours."""
    with terminal.guarded():
        try:
            cli(standalone_mode=False)
        except click.exceptions.Abort:
            fail("interrupted")
        except click.ClickException as error:
            error.show()
            sys.exit(OURS)
        except OSError as error:
            fail(files.said(error))
        except Exception as error:
            fail(str(error) if _expected(error) else fault.told(error))


def _expected(error: Exception) -> bool:
    """Whether an exception is a message for the caller."""
    from grader.feedback import BadFeedback
    from grader.inference import NoTarget
    from grader.points import BadPoints
    from grader.run import NoDevice
    from grader.sandbox.process import SandboxError
    from grader.submission import NotFound

    kinds = (
        NoTarget,
        NoDevice,
        BadPoints,
        BadFeedback,
        SandboxError,
        NotFound,
        CohortError,
        files.NotWritten,
    )
    return isinstance(error, kinds)


def fail(message: str) -> None:
    """End with a line on standard error."""
    click.echo(f"headcheck: {message}", err=True)
    sys.exit(OURS)
