"""Options that several commands share. Nothing heavy is imported before a command needs it."""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from headcheck.grader.grading import devices
from headcheck.grader.ui.help import LimitParameter

if TYPE_CHECKING:
    from headcheck.exercises import Exercise
    from headcheck.grader.grading.search_limit import SearchLimit
    from headcheck.grader.report.course_file import CourseFile
    from headcheck.grader.report.feedback import Feedback

SEED_RANGE = click.IntRange(0, 2**63 - 1)

exercise_option = click.option(
    "--exercise",
    metavar="SLUG|FOLDER",
    help="The exercise, or the folder of your own. By default, names and signatures decide.",
)
format_option = click.option(
    "--format",
    "form",
    type=click.Choice(["text", "json", "html", "github"]),
    default="text",
    show_default=True,
)


def make_course_option(default: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the option that names the course file; `default` describes what applies without it."""
    text = f"The course file: points, feedback, deadlines, groups, rubrics.  [default: {default}]"
    path = click.Path(path_type=Path)
    return click.option("--course", "course_file", metavar="FILE", type=path, help=text)


course_option = make_course_option("headcheck.toml of the exercise")
own_course_option = make_course_option("headcheck.toml beside the file, or of the exercise")
round_option = click.option(
    "--round",
    "rounding",
    metavar="STEP",
    type=float,
    callback=lambda _, __, step: check_step(step),
    help="Round scores to multiples of this many points, such as 0.5.  [default: 0.01]",
)
bind_option = click.option(
    "--bind",
    "bindings",
    multiple=True,
    metavar="QUANTITY=ARGUMENT",
    help="Say what an argument is (heads=n_head), or whether later tokens are hidden (causal=yes).",
)
by_hand_option = click.option(
    "--by-hand", is_flag=True, help="Forbid torch's own attention functions."
)
verbose_option = click.option(
    "--verbose",
    is_flag=True,
    help="Print every failing check, including those that follow from a known mistake.",
)
examples_option = click.option(
    "--examples",
    "all_examples",
    type=click.Choice(["shown", "all"]),
    default="shown",
    callback=lambda _, __, wanted: wanted == "all",
    hidden=True,  # for those who read report.json: what is shown is the same
    help="Search the smallest example for the failures that are shown, or for all.",
)
feedback_option = click.option(
    "--feedback",
    metavar="LEVEL",
    help="Feedback to give: name, message, case or full.  [default: the course file's, or full]",
)
device_option = click.option(
    "--device",
    default="cpu",
    show_default=True,
    help=f"Compute on this device: {devices.DEVICE_NAMES}.",
)
seed_option = click.option(
    "--seed",
    type=SEED_RANGE,
    help="The seed of the cases. `check` uses 0.  [default: a secret seed]",
)
search_option = click.option(
    "--search",
    metavar="N|SECONDS",
    callback=lambda _, __, text: parse_search(text),
    help="After the fixed cases try so many generated ones, or for a time such as 30s.",
)
thorough_option = click.option(
    "--thorough",
    is_flag=True,
    help="Ask everything, and not only what finds the mistakes that people make.",
)
trusted_option = click.option(
    "--trusted", is_flag=True, help="Run submissions even where the machine cannot confine them."
)


@dataclass(frozen=True, slots=True)
class LimitOption:
    """An option that sets a field of `Limits`."""

    option: str
    field: str
    default: int
    text: str
    real: bool = False
    mebibytes: bool = False


LIMIT_OPTIONS = (
    LimitOption("--call-seconds", "call_s", 10, "Seconds for one call.", real=True),
    LimitOption("--endless-calls", "endless_calls", 3, "How many calls may use up their time."),
    LimitOption("--idle-seconds", "idle_s", 15, "Seconds asleep in all.", real=True),
    LimitOption("--read-seconds", "read_s", 60, "Seconds for reading the file.", real=True),
    LimitOption("--import-seconds", "import_s", 60, "Seconds for importing modules.", real=True),
    LimitOption("--seconds", "total_s", 120, "Seconds for everything else.", real=True),
    LimitOption("--cpu-seconds", "cpu_s", 60, "Seconds of processor time in all."),
    LimitOption("--memory", "memory", 2048, "Memory, in MiB.", mebibytes=True),
    LimitOption("--threads", "threads", 16, "Threads at a time."),
    LimitOption("--open-files", "open_files", 64, "Open files at a time."),
    LimitOption("--scratch", "scratch", 16, "Files written, in MiB.", mebibytes=True),
    LimitOption("--file-size", "source", 20, "Size of the file itself, in MiB.", mebibytes=True),
    LimitOption("--reply", "reply", 64, "The largest result of one call, in MiB.", mebibytes=True),
    LimitOption("--replies", "replies", 1024, "What all calls return, in MiB.", mebibytes=True),
)


def limits_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options that limit a submission's resources; an exercise may have other defaults."""
    for limit in reversed(LIMIT_OPTIONS):
        kind = click.FloatRange(min=0, min_open=True) if limit.real else click.IntRange(min=1)
        text = f"{limit.text} [default: {limit.default}]"
        names = limit.option, limit.field
        command = click.option(*names, cls=LimitParameter, type=kind, help=text)(command)
    trust = "Run submissions even where the machine cannot confine them. Trust each of them first."
    return click.option("--trusted", is_flag=True, help=trust)(command)


def pop_limits(options: dict[str, Any]) -> dict[str, float]:
    """Remove the limits from the options and return those that were set, sizes in bytes."""
    values = {limit: options.pop(limit.field) for limit in LIMIT_OPTIONS}
    return {
        limit.field: value << 20 if limit.mebibytes else value
        for limit, value in values.items()
        if value is not None
    }


def parse_search(text: str | None) -> "SearchLimit | None":
    """Return the limit that `--search` sets; None without the option. Raises BadSearch."""
    from headcheck.grader.grading import search_limit

    return None if text is None else search_limit.parse_search(text)


def parse_feedback(word: str | None) -> "Feedback | None":
    """Return the level that `--feedback` names; None without the option. Raises BadFeedback."""
    from headcheck.grader.report import feedback

    return None if word is None else feedback.parse_level(word)


def check_step(step: float | None) -> float | None:
    """Return the step of `--round`. Raises click.BadParameter if scores cannot be rounded to it."""
    from headcheck.grader.report.rounding import explain_bad_step

    if step is not None and (problem := explain_bad_step(step)):
        raise click.BadParameter(problem)
    return step


def load_course_file(
    named: Path | None, exercise: "Exercise | None", work: Path | None = None
) -> "CourseFile":
    """Return the named course file, or else the one that is found. Raises BadCourseFile.

    A course file that is found beside somebody's own work is named on standard error.
    """
    from headcheck.grader.report import course_file

    if named is not None:
        return course_file.read_course_file(named, exercise)
    found = course_file.find_course_file(exercise, work)
    course = course_file.read_course_file(found, exercise)
    if found is not None:
        from headcheck.grader.report.render.sanitise import sanitise_line

        click.echo(f"headcheck: course file: {sanitise_line(str(found))}", err=True)
    return course
