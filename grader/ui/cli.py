"""The `headcheck` command. Nothing heavy is imported before a command needs it."""

import contextlib
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import click

from grader import fault, files, terminal
from grader.course import CourseError
from grader.ui import course_commands
from grader.ui.bank_commands import bank
from grader.ui.options import (
    SEED_RANGE,
    device_option,
    feedback_option,
    parse_feedback,
    seed_option,
)

EXIT_ERROR = 2  # exit code for a fault that is ours or the caller's, not the submission's
STARTERS = click.Choice(["ipynb", "py", "both"])
FORMATS = click.Choice(["text", "json", "html", "github"])
AUDIT_FORMATS = click.Choice(["text", "json", "html"])


@dataclass(frozen=True, slots=True)
class LimitOption:
    """An option for a field of `Limits`."""

    option: str
    field: str
    default: int
    text: str
    real: bool = False
    mebibytes: bool = False


LIMIT_OPTIONS = (
    LimitOption("--call-seconds", "call_s", 10, "Wall time of a call.", real=True),
    LimitOption("--slow-seconds", "slow_s", 1, "A call that takes longer is slow.", real=True),
    LimitOption("--slow-calls", "slow_calls", 3, "Slow calls, after which no more are made."),
    LimitOption("--idle-seconds", "idle_s", 15, "Time asleep in all.", real=True),
    LimitOption("--read-seconds", "read_s", 60, "Wall time of reading the file.", real=True),
    LimitOption("--seconds", "wall_s", 120, "Wall time of all else.", real=True),
    LimitOption("--cpu-seconds", "cpu_s", 60, "Processor time in all."),
    LimitOption("--memory", "memory", 2048, "Memory, in MiB.", mebibytes=True),
    LimitOption("--threads", "threads", 16, "Threads at a time."),
    LimitOption("--open-files", "open_files", 64, "Open files at a time."),
    LimitOption("--scratch", "scratch", 16, "Files written, in MiB.", mebibytes=True),
    LimitOption("--reply", "reply", 64, "What one call returns, in MiB.", mebibytes=True),
    LimitOption("--replies", "replies", 1024, "What all calls return, in MiB.", mebibytes=True),
)


def limits_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that bound what a submission may use; an exercise may have others by default."""
    for limit in reversed(LIMIT_OPTIONS):
        kind = click.FloatRange(min=0, min_open=True) if limit.real else click.IntRange(min=1)
        text = f"{limit.text} [default: {limit.default}]"
        command = click.option(limit.option, limit.field, type=kind, help=text)(command)
    trust = "Grade also where submissions cannot be confined: only if you trust each of them."
    return click.option("--trusted", is_flag=True, help=trust)(command)


def _pop_limits(options: dict[str, Any]) -> dict[str, float]:
    """Takes the limits that were named out of the options; sizes in bytes."""
    named = {limit: options.pop(limit.field) for limit in LIMIT_OPTIONS}
    return {
        limit.field: value << 20 if limit.mebibytes else value
        for limit, value in named.items()
        if value is not None
    }


def _prestart_zygote(device: str) -> contextlib.AbstractContextManager[Any]:
    """A zygote that gets warm while this process imports what it needs, where there is one."""
    from grader.sandbox.grader_side import launch

    return launch.start_zygote_for(device) or contextlib.nullcontext()


def _print_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    from grader.report.records import get_version

    if wanted:
        click.echo(f"headcheck, version {get_version()}")
        context.exit()


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
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
@course_commands.course_options
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
    course = course_commands.pop_course_options(options)
    with contextlib.nullcontext() if course else _prestart_zygote(options["device"]) as server:
        from grader import run
        from grader.report.feedback import redact_report
        from grader.seed import choose_grading_seed

        drawn = choose_grading_seed(seed)
        settings = run.make_settings(
            exercise, points, seed=drawn, limits=_pop_limits(options), **options
        )
        tell = parse_feedback(feedback)
        if out is not None:
            files.ensure_writable(out)  # rather than find out after an hour
        if course is None:
            report = redact_report(
                run.grade_paths(paths, settings, trusted=trusted, ahead=server), tell
            )
        else:
            report = course_commands.grade_into_store(
                paths, settings, tell, course, trusted=trusted
            )
    problem = "" if out is None else run.save_report(report, out)
    run.show_report(report, form)
    if problem:
        kept = "" if course is None else ", and the store keeps it"
        fail(f"{problem}. The report is what is printed{kept}.")
    sys.exit(run.compute_exit_code(report))


@cli.command()
@click.argument("path", metavar="FILE[:NAME]")
@click.option(
    "--exercise", metavar="SLUG", help="The exercise; else told from names and signatures."
)
@click.option("--format", "form", type=FORMATS, default="text", show_default=True)
@click.option("--by-hand", is_flag=True, help="Put torch's own attention out of reach.")
@device_option
@click.option("--seed", default=0, show_default=True, type=SEED_RANGE, help="Chooses the cases.")
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
    with _prestart_zygote(options["device"]) as server:
        from grader import run
        from grader.report.feedback import redact_report
        from grader.seed import make_seed

        named = make_seed(seed)
        settings = run.make_settings(
            exercise, None, seed=named, limits=_pop_limits(options), **options
        )
        tell = parse_feedback(feedback)
        if watch:
            sys.exit(run.watch_file(path, settings, form, tell, trusted=trusted, ahead=server))
        report = redact_report(
            run.grade_paths((path,), settings, trusted=trusted, ahead=server), tell
        )
    run.show_report(report, form)
    sys.exit(run.compute_exit_code(report))


@cli.command()
@click.argument("slugs", nargs=-1, metavar="[SLUG]...")
@click.option("--format", "form", type=AUDIT_FORMATS, default="text", show_default=True)
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
    from grader.audit import page as shown
    from grader.audit.matrix import load_answers, load_mutants
    from grader.audit.matrix import run_audit as audited
    from grader.grading import infer

    exercises = [infer.find_exercise(slug) for slug in slugs] or list(ALL)
    choose = load_mutants if mutants else load_answers
    wanted = [answer for exercise in exercises for answer in choose(exercise)]
    found = audited(exercises, wanted, jobs or os.cpu_count() or 1)
    render = {"text": shown.render_text, "json": shown.to_json, "html": shown.render_html}[form]
    click.echo(render(found), nl=False)
    sys.exit(0 if found.clean else 1)


@cli.command()
def doctor() -> None:
    """Say how well this machine can confine submissions, and what would make it better.

    Exit code: 0 well enough for code of strangers, 1 not.
    """
    from grader import run

    text, enough = run.examine_machine()
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

    click.echo(run.describe_exercise(slug), nl=False)


@cli.command()
@click.argument("slug")
@click.argument("number", type=click.IntRange(min=1), default=1)
def hint(slug: str, number: int) -> None:
    """Show a hint on an exercise: the first, or number NUMBER. Each leads further."""
    from grader import run

    click.echo(run.format_hint(slug, number), nl=False)


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
    from grader.grading import infer

    slugs, folders = ((), words) if series else (words[:1], words[1:])
    if len(folders) > 1 or not (series or slugs):
        raise click.UsageError("write start SLUG [DIRECTORY], or start --all [DIRECTORY]")
    folder = Path(folders[0] if folders else ".")
    if folder.is_file():
        raise click.UsageError(f"{folder} is a file; name a folder")
    if series:
        files = starter.write_starters(ALL, folder, form=form)
    else:
        files = starter.write_starter(infer.find_exercise(slugs[0]), folder, form=form)
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
    from grader import run
    from grader.course import autograder
    from grader.course.autograder import pack
    from grader.course.autograder import wheel as wheels
    from grader.course.store import manifest
    from grader.grading import infer
    from grader.report.feedback import FULL_FEEDBACK
    from grader.report.points import distribute_points
    from grader.seed import choose_grading_seed

    drawn = choose_grading_seed(seed)
    settings = run.make_settings(slug, points, seed=drawn, limits=_pop_limits(options), **options)
    tell = parse_feedback(feedback) or FULL_FEEDBACK
    plan = autograder.AutograderPlan(manifest.build_manifest(settings, feedback=tell), trusted)
    made = wheels.build_own_wheel() if wheel is None else wheels.read_wheel(wheel)
    files.write(out, pack.build_archive(plan, made, minutes))
    most = sum(distribute_points(infer.find_exercise(slug), settings.points).values())
    click.echo(f"wrote {out}: {most:g} points, {minutes} minutes; set these on Gradescope")


for command in (bank, *course_commands.COMMANDS):
    cli.add_command(command)


def main() -> None:
    """Run the command; every fault is one line, and never a traceback of ours."""
    with terminal.guard_streams():
        try:
            cli(standalone_mode=False)
        except click.exceptions.Abort:
            fail("interrupted")
        except click.ClickException as error:
            error.show()
            sys.exit(EXIT_ERROR)
        except OSError as error:
            fail(files.describe_os_error(error))
        except Exception as error:
            fail(str(error) if _is_user_error(error) else fault.describe(error))


def _is_user_error(error: Exception) -> bool:
    """Whether an exception is a message for the caller."""
    from exercises.answers import AnswerNotFound, BadBank
    from grader.grading.infer import TargetNotFound
    from grader.reading.submission import SubmissionNotFound
    from grader.report.feedback import BadFeedback
    from grader.report.points import BadPoints
    from grader.run import DeviceUnavailable
    from grader.sandbox.grader_side.servers import SandboxError

    kinds = (
        TargetNotFound,
        AnswerNotFound,
        BadBank,
        DeviceUnavailable,
        BadPoints,
        BadFeedback,
        SandboxError,
        SubmissionNotFound,
        CourseError,
        files.WriteError,
    )
    return isinstance(error, kinds)


def fail(message: str) -> None:
    """End with a line on standard error."""
    click.echo(f"headcheck: {message}", err=True)
    sys.exit(EXIT_ERROR)
