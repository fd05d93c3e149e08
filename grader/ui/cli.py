"""The `headcheck` command. Nothing heavy is imported before a command needs it."""

import contextlib
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import click

from headcheck.grader import UserError, fault, files, terminal
from headcheck.grader.ui.course_options import course_options, pop_course_options
from headcheck.grader.ui.help import CommandTable, HelpGroup
from headcheck.grader.ui.options import (
    SEED_RANGE,
    bind_option,
    by_hand_option,
    course_option,
    device_option,
    examples_option,
    exercise_option,
    feedback_option,
    format_option,
    limits_options,
    load_course_file,
    own_course_option,
    parse_feedback,
    pop_limits,
    round_option,
    search_option,
    seed_option,
    thorough_option,
    verbose_option,
)

if TYPE_CHECKING:
    from headcheck.grader.grading.search_limit import SearchLimit
    from headcheck.grader.report.records import Report
    from headcheck.grader.sandbox.grader_side.launch import Zygote

GetZygote = Callable[[str], "Zygote | None"]
"""returns a zygote for grading on this device, or None if the system supports none"""
EXIT_ERROR = 2  # exit code for internal errors and the caller's, as opposed to the submission's


def _prestart_zygote(device: str) -> contextlib.AbstractContextManager[Any]:
    """Get a zygote, if the system supports it, before this process imports its modules."""
    get_zygote: GetZygote | None = click.get_current_context().find_root().obj
    if get_zygote is None:
        from headcheck.grader.sandbox.grader_side.launch import start_zygote_for

        get_zygote = start_zygote_for
    return get_zygote(device) or contextlib.nullcontext()


def _print_version(context: click.Context, parameter: click.Parameter, wanted: bool) -> None:
    from headcheck.grader.version import get_version

    if wanted:
        click.echo(f"headcheck, version {get_version()}")
        context.exit()


@click.group(
    cls=HelpGroup,
    commands=CommandTable(),
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Show the version and exit.",
)
def cli() -> None:
    """Check and grade attention in PyTorch by properties that every correct one has."""


@cli.command()
@click.argument("paths", nargs=-1, required=True)
@exercise_option
@format_option
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for report.json and HTML pages."
)
@course_option
@round_option
@by_hand_option
@device_option
@click.option(
    "--jobs",
    type=click.IntRange(1),
    help="How many processes grade side by side. By default as many as pay off.",
)
@seed_option
@thorough_option
@search_option
@feedback_option
@verbose_option
@examples_option
@course_options
@limits_options
def grade(
    paths: tuple[str, ...],
    exercise: str | None,
    form: str,
    out: Path | None,
    course_file: Path | None,
    feedback: str | None,
    seed: int | None,
    verbose: bool,
    trusted: bool,
    **options: Any,
) -> None:
    """Grade files and folders of notebooks and modules. FILE:NAME picks one definition.

    The report goes to standard output. --out writes it as report.json, index.html and a page for
    every submission; then only the table of grades is printed, and all of it with --verbose. With
    --store it is kept, archives and downloads of course systems are taken, and the same command
    goes on where it was interrupted.

    Exit code: 0 all passed; 1 not all passed, or a file has no answer; 2 the machine or headcheck
    kept something from being judged or written, or the command was wrong.
    """
    course = pop_course_options(options)
    with _prestart_zygote(options["device"]) as server:
        from headcheck.grader import run
        from headcheck.grader.report.feedback import redact_report
        from headcheck.grader.seed import choose_grading_seed

        limits = pop_limits(options)
        case_seed = choose_grading_seed(seed)
        asked = run.find_exercise(exercise)
        rules = load_course_file(course_file, asked)
        settings = run.make_settings(asked, rules, seed=case_seed, limits=limits, **options)
        level = parse_feedback(feedback) or rules.feedback
        if out is not None:
            files.ensure_writable(out)  # rather than fail after an hour
        if course is not None:
            from headcheck.grader.ui.course_commands import grade_into_store

            report = grade_into_store(
                paths, settings, level, course, rules=rules, trusted=trusted, ahead=server
            )
        else:
            complete = run.grade_paths(paths, settings, trusted=trusted, ahead=server, shared=True)
            report = redact_report(complete, level)
    kept = "" if course is None else ", and the store keeps it"
    _save_and_show(report, out, form, verbose=verbose, kept=kept)
    sys.exit(run.compute_exit_code(report))


def _save_and_show(
    report: "Report", out: Path | None, form: str, *, verbose: bool, kept: str
) -> None:
    """Save a report, and print its grades; print all of it if it is wanted or cannot be saved."""
    from headcheck.grader import run

    problem = "" if out is None else run.save_report(report, out)
    if out is None or problem or verbose or form != "text":
        run.show_report(report, form, verbose=verbose)
    else:
        run.show_grades(report)
    if problem:
        fail(f"{problem}. The report is what is printed{kept}.")
    if out is not None:
        click.echo(f"report: {out / 'index.html'}", err=True)


@cli.command()
@click.argument("path", metavar="FILE[:NAME]")
@exercise_option
@format_option
@own_course_option
@by_hand_option
@device_option
@click.option(
    "--seed", default=0, show_default=True, type=SEED_RANGE, help="The seed of the cases."
)
@bind_option
@click.option("--watch", is_flag=True, help="Check again whenever the file is saved.")
@thorough_option
@search_option
@feedback_option
@verbose_option
@examples_option
@limits_options
def check(
    path: str,
    exercise: str | None,
    form: str,
    course_file: Path | None,
    watch: bool,
    feedback: str | None,
    seed: int,
    verbose: bool,
    trusted: bool,
    **options: Any,
) -> None:
    """Check one file while working on it. The exit code is 0 if all passed, 1 if not.

    A course file sets the points, and the most that is shown. With --watch the exit code is that of
    the last check; Ctrl-C ends it.
    """
    slug = path.partition(":")[0]
    if not (Path(path).exists() or Path(slug).exists()):
        from headcheck.grader.grading.infer import refuse_slug

        refuse_slug(slug)
    with _prestart_zygote(options["device"]) as server:
        from headcheck.grader import run
        from headcheck.grader.report.feedback import redact_report
        from headcheck.grader.seed import make_seed

        limits, case_seed = pop_limits(options), make_seed(seed)
        asked, wanted = run.find_exercise(exercise), parse_feedback(feedback)
        rules = load_course_file(course_file, asked, Path(path).parent)
        settings = run.make_settings(asked, rules, seed=case_seed, limits=limits, **options)
        level, why_less = rules.limit(wanted)
        if why_less:
            click.echo(f"headcheck: {why_less}", err=True)
        if watch:
            how = {"trusted": trusted, "verbose": verbose, "ahead": server}
            sys.exit(run.watch_file(path, settings, form, level, **how))
        complete = run.grade_paths((path,), settings, trusted=trusted, ahead=server)
        report = redact_report(complete, level)
    run.show_report(report, form, verbose=verbose)
    sys.exit(run.compute_exit_code(report))


@cli.command()
@click.argument("slugs", nargs=-1, metavar="[SLUG|FOLDER]...")
@click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html"]),
    default="text",
    show_default=True,
)
@click.option(
    "--jobs",
    type=click.IntRange(min=1),
    help="How many processes work side by side. By default one per core.",
)
@click.option(
    "--mutants", is_flag=True, help="Test small changes of the solutions instead of the answers."
)
@search_option
def audit(
    slugs: tuple[str, ...], form: str, jobs: int | None, mutants: bool, search: "SearchLimit | None"
) -> None:
    """Test the grader itself on the known right and wrong answers to exercises, or to all.

    With --search it also says which checks fail on generated cases alone, and how often.

    Exit code: 0 when no wrong answer survives, no right one is accused and no check is idle.
    """
    import os

    from headcheck.exercises import ALL
    from headcheck.grader.audit import page
    from headcheck.grader.audit.matrix import load_answers, load_mutants, run_audit
    from headcheck.grader.grading import infer

    exercises = [infer.find_exercise(slug) for slug in dict.fromkeys(slugs)] or list(ALL)
    if len({exercise.slug for exercise in exercises}) < len(set(exercises)):
        raise click.UsageError("two of these folders have the same name: audit one after the other")
    load = load_mutants if mutants else load_answers
    answers = [answer for exercise in exercises for answer in load(exercise)]
    matrix = run_audit(exercises, answers, jobs or os.cpu_count() or 1, search)
    render = {"text": page.render_text, "json": page.to_json, "html": page.render_html}[form]
    click.echo(render(matrix), nl=False)
    sys.exit(0 if matrix.clean else 1)


@cli.command()
def doctor() -> None:
    """Report which isolation level this machine supports, and how to raise it.

    Exit code: 0 well enough for code of strangers, 1 not.
    """
    from headcheck.grader import run

    text, enough = run.examine_machine()
    click.echo(text, nl=False)
    sys.exit(0 if enough else 1)


@cli.command()
@click.argument("slug", metavar="SLUG|FOLDER")
@click.argument("out", type=click.Path(dir_okay=False, path_type=Path), metavar="OUT.zip")
@course_option
@round_option
@by_hand_option
@seed_option
@click.option(
    "--minutes",
    type=click.IntRange(3, 40),
    default=10,
    show_default=True,
    help="The time limit that you set on Gradescope for a submission.",
)
@click.option(
    "--wheel", type=click.Path(path_type=Path), help="A wheel of headcheck. By default it is built."
)
@feedback_option
@limits_options
def gradescope(
    slug: str,
    out: Path,
    course_file: Path | None,
    minutes: int,
    wheel: Path | None,
    feedback: str | None,
    seed: int | None,
    trusted: bool,
    **options: Any,
) -> None:
    """Write an autograder for an exercise, ready to upload to Gradescope.

    The archive holds headcheck with all its solutions: give it to nobody else.
    """
    from headcheck.grader import run
    from headcheck.grader.course import autograder
    from headcheck.grader.course.autograder import pack
    from headcheck.grader.course.store import manifest
    from headcheck.grader.grading import infer
    from headcheck.grader.report.feedback import FULL_FEEDBACK
    from headcheck.grader.report.points import compute_maximum
    from headcheck.grader.report.rounding import format_number
    from headcheck.grader.seed import choose_grading_seed

    limits, case_seed = pop_limits(options), choose_grading_seed(seed)
    exercise = infer.find_exercise(slug)
    rules = load_course_file(course_file, exercise)
    settings = run.make_settings(exercise, rules, seed=case_seed, limits=limits, **options)
    level = parse_feedback(feedback) or rules.feedback or FULL_FEEDBACK
    plan = autograder.AutograderPlan(manifest.build_manifest(settings, feedback=level), trusted)
    headcheck = pack.build_own_wheel() if wheel is None else pack.read_wheel(wheel)
    files.write(out, pack.build_archive(plan, headcheck, minutes))
    most = format_number(compute_maximum(exercise, settings.points))
    click.echo(f"wrote {out}: {most} points, {minutes} minutes; set these on Gradescope")


def main(get_zygote: GetZygote | None = None, name: str | None = None) -> None:
    """Run the command; every error is reported in one line, without a traceback.

    A command that needs a zygote gets it from `get_zygote`, or starts one. `name` is the program's
    name in messages, if the way it was started does not reveal that name.
    """
    with terminal.guard_streams():
        try:
            cli(standalone_mode=False, obj=get_zygote, prog_name=name)
        except click.exceptions.Abort:
            fail("interrupted")
        except click.ClickException as error:
            if isinstance(error, click.NoSuchOption) and error.option_name == "--language":
                fail("there is no option --language any more: reports are in English")
            error.show()
            sys.exit(EXIT_ERROR)
        except OSError as error:
            fail(files.describe_os_error(error))
        except Exception as error:
            fail(str(error) if _is_for_user(error) else fault.describe(error))


def _is_for_user(error: Exception) -> bool:
    """Whether an exception is a message for the user, rather than an internal error."""
    from headcheck.exercises.exercise import BadContract

    if isinstance(error, (UserError, BadContract)):
        return True  # of a contract of ours, too: what is imported next would raise it again
    from headcheck.exercises.answers import AnswerNotFound, BadBank

    return isinstance(error, (AnswerNotFound, BadBank))


def fail(message: str) -> NoReturn:
    """Print a line on standard error and exit."""
    click.echo(f"headcheck: {message}", err=True)
    sys.exit(EXIT_ERROR)
