"""What the commands about a course have in common: their options, the store, remarks.

Nothing heavy is imported before it is needed.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader.course import CourseError

if TYPE_CHECKING:
    from grader.course.store.store import Store

EXTRAS = {
    "sqlalchemy": "cohort", "alembic": "cohort", "psycopg": "cohort", "pyarrow": "parquet",
    "nbgrader": "nbgrader", "distributed": "cluster",
}  # fmt: skip
"""what a plain installation has not, and the extra that brings it"""
MAX_LISTED = 50
"""how many changes, or names, are listed"""


def store_option(**more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Where what was judged is kept."""
    text = "The store: a file of SQLite, or the URL of a PostgreSQL database."
    return click.option("--store", "location", metavar="FILE|URL", help=text, **more)


def roster_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Who the students are."""
    text = "CSV file of the students: the export of any of these systems."
    return click.option("--roster", type=click.Path(path_type=Path), help=text)(command)


def open_store(location: str, *, create: bool = False) -> AbstractContextManager["Store"]:
    """The store. Raises CohortError where the packages are missing."""
    try:
        from grader.course.store import store
    except ImportError as error:
        raise explain_missing_package(error) from None
    return store.open_store(location, create=create)


def explain_missing_package(error: ImportError) -> Exception:
    """What to install, if that is what an import failed for."""
    package = (error.name or "").partition(".")[0]
    if package not in EXTRAS:
        return error
    return CourseError(f"needs {package}: pip install 'headcheck[{EXTRAS[package]}]'")


def load_roster(path: Path | None) -> Any:
    """The students of a file; nobody without one. Raises BadRoster."""
    from grader.course.intake import roster

    return roster.Roster() if path is None else roster.read_roster(path)


def warn_about(what: str, names: tuple[str, ...]) -> None:
    """Say on standard error whom or what something is about."""
    from grader.report.render.sanitise import sanitise_line

    if names:
        more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
        listed = ", ".join(sanitise_line(name) for name in names[:MAX_LISTED])
        click.echo(f"headcheck: {what}: {listed}{more}", err=True)
