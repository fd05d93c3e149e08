"""Shared code of the course commands: options, opening the store and the roster, warnings.

Nothing heavy is imported before a command needs it.
"""

import getpass
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    from headcheck.grader.course.policy import Policy
    from headcheck.grader.course.results import ExerciseResult
    from headcheck.grader.course.store.records import GradedFile
    from headcheck.grader.course.store.store import Store
    from headcheck.grader.report.course_file import CourseFile

EXTRAS = {
    "sqlalchemy": "course", "alembic": "course", "psycopg": "course", "pyarrow": "parquet",
    "nbgrader": "nbgrader", "nbformat": "student", "IPython": "student",
}  # fmt: skip
"""packages that a plain installation lacks, and the extras that install them"""
MAX_LISTED = 50
"""the largest number of names in a warning"""
LAYOUT_NAMES = ("canvas", "moodle", "gradescope", "nbgrader", "github", "plain")
"""the names of the layouts of downloads, as in `grader.course.intake.layouts.LAYOUTS`"""


roster_option = click.option(
    "--roster",
    type=click.Path(path_type=Path),
    help="The students as a CSV file, exported from any of these systems.",
)


def store_option(**more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Return the click option that names the store."""
    text = "The store: a file of SQLite, or the URL of a PostgreSQL database."
    return click.option("--store", "location", metavar="FILE|URL", help=text, **more)


def course_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Add the options of `grade` for a course, which take effect with --store only."""
    options = (
        store_option(),
        click.option(
            "--run",
            metavar="NAME",
            help="The name of the run in the store. [default: the exercise, if one is named]",
        ),
        roster_option,
        click.option(
            "--layout",
            type=click.Choice(["auto", *LAYOUT_NAMES]),
            help="The system that the download comes from. [default: auto]",
        ),
        click.option(
            "--assignment",
            metavar="NAME",
            help="The assignment's name in nbgrader or GitHub Classroom.",
        ),
        click.option(
            "--attempts",
            type=click.Choice(["latest", "best"]),
            help="Which of several attempts counts. [default: latest]",
        ),
    )
    for option in reversed(options):
        command = option(command)
    return command


def pop_course_options(options: dict[str, Any]) -> dict[str, Any] | None:
    """Remove the options of `course_options` and return them; None without a store.

    Raises click.UsageError if one of them is given without a store.
    """
    names = ("location", "run", "roster", "layout", "assignment", "attempts")
    course_settings = {name: options.pop(name) for name in names}
    if course_settings["location"] is not None:
        return course_settings
    if extra := [name for name in names if course_settings[name] is not None]:
        raise click.UsageError(f"--{extra[0]} is about a course, which needs --store")
    return None


@contextmanager
def open_store(location: str, *, create: bool = False) -> Iterator["Store"]:
    """Open a store for the context. Raises CourseError if packages are missing."""
    with ExitStack() as stack:
        with naming_extras():
            from headcheck.grader.course.store import store

            opened = stack.enter_context(store.open_store(location, create=create))
        yield opened


@contextmanager
def naming_extras() -> Iterator[None]:
    """If a package is missing, raise a CourseError that names the extra to install."""
    try:
        yield
    except ImportError as error:
        package = (error.name or "").partition(".")[0]
        if package not in EXTRAS:
            raise
        from headcheck.grader.course import CourseError

        extra = EXTRAS[package]
        advice = f"in the folder of headcheck's sources, pip install '.[{extra}]'"
        raise CourseError(f"needs {package}: {advice}") from None


def load_roster(path: Path | None) -> Any:
    """Read a roster; without a path it is empty. Raises RosterError."""
    from headcheck.grader.course.intake import roster

    return roster.Roster() if path is None else roster.read_roster(path)


def make_policy(rules: "CourseFile", run: str, roster: Any) -> "Policy | None":
    """Return what a course file says of a run's deadline and groups; None without a file.

    Raises RosterError if the file with the groups cannot be read.
    """
    from headcheck.grader.course import policy
    from headcheck.grader.report.render.sanitise import sanitise_line

    if rules.path is None:
        return None
    if missing := policy.explain_missing_deadline(rules, run):
        click.echo(f"headcheck: {sanitise_line(missing)}", err=True)
    return policy.make_policy(rules, run, roster)


def tell_policy(
    policy: "Policy",
    stored: "Sequence[GradedFile]",
    results: "Sequence[ExerciseResult]",
    roster: Any,
) -> None:
    """Tell on standard error what is odd about the groups of a run, and who is late."""
    from headcheck.grader.course.remarks import describe_policy

    for what, names in describe_policy(policy, stored, results, roster):
        warn_about(what, names)


def tell_kept_shares(results: "Sequence[ExerciseResult]") -> None:
    """Tell on standard error which scores set by a person follow a new maximum."""
    from headcheck.grader.course.results import list_kept_shares

    warn_about("set by a person, keeps its share of the maximum", list_kept_shares(results))


def warn_about(what: str, names: tuple[str, ...]) -> None:
    """Warn on standard error about these names."""
    from headcheck.grader.report.render.sanitise import sanitise_line

    if names:
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        listed = ", ".join(sanitise_line(name) for name in names[:MAX_LISTED])
        click.echo(f"headcheck: {what}: {listed}{more}", err=True)


def get_slug(exercise: str | None) -> str | None:
    """Return the slug under which results name an exercise; its folder may be given instead."""
    from headcheck.exercises.contract_file import names_folder

    if exercise is None or not names_folder(exercise):
        return exercise
    return Path(exercise).resolve().name


def parse_student(text: str) -> tuple[str, str]:
    """Return the run and the student in RUN/STUDENT. Raises click.UsageError."""
    run, slash, student = text.partition("/")
    if not (run and slash and student):
        raise click.UsageError(f"{text}: write RUN/STUDENT; `headcheck runs` lists the runs")
    return run, student


def get_author() -> str:
    """Return the name of the user, which is kept with what a person decides."""
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container may have no user of that number
        return "unknown"
