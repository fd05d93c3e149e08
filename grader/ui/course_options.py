"""What the commands about a course have in common: their options, the store, remarks.

Nothing heavy is imported before it is needed.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from grader.course import CohortError

if TYPE_CHECKING:
    from grader.course.store.store import Store

NEEDED = {
    "sqlalchemy": "cohort", "alembic": "cohort", "psycopg": "cohort", "pyarrow": "parquet",
    "nbgrader": "nbgrader", "distributed": "cluster",
}  # fmt: skip
"""what a plain installation has not, and the extra that brings it"""
SHOWN = 50
"""how many changes, or names, are listed"""


def store_option(**more: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Where what was judged is kept."""
    text = "The store: a file of SQLite, or the URL of a PostgreSQL database."
    return click.option("--store", "place", metavar="FILE|URL", help=text, **more)


def roster_option(command: Callable[..., Any]) -> Callable[..., Any]:
    """Who the students are."""
    text = "CSV file of the students: the export of any of these systems."
    return click.option("--roster", type=click.Path(path_type=Path), help=text)(command)


def opened(place: str, *, create: bool = False) -> AbstractContextManager["Store"]:
    """The store. Raises CohortError where the packages are missing."""
    try:
        from grader.course.store import store
    except ImportError as error:
        raise missing(error) from None
    return store.opened(place, create=create)


def missing(error: ImportError) -> Exception:
    """What to install, if that is what an import failed for."""
    package = (error.name or "").partition(".")[0]
    if package not in NEEDED:
        return error
    return CohortError(f"needs {package}: pip install 'headcheck[{NEEDED[package]}]'")


def roster_of(path: Path | None) -> Any:
    """The students of a file; nobody without one. Raises BadRoster."""
    from grader.course.intake import roster

    return roster.Roster() if path is None else roster.read(path)


def remark(what: str, names: tuple[str, ...]) -> None:
    """Say on standard error whom or what something is about."""
    from grader.report.render.sanitise import one_line

    if names:
        more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
        listed = ", ".join(one_line(name) for name in names[:SHOWN])
        click.echo(f"headcheck: {what}: {listed}{more}", err=True)
