"""Opening a store: SQLite in one file, or PostgreSQL by URL, brought to the newest version.

Theory. What is committed stays, whatever happens to this process or to the machine: SQLite writes
ahead and waits for the disk (WAL, synchronous=FULL). A transaction that writes takes the lock at
its beginning, so that two processes on one store wait for each other and neither fails midway.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from alembic import command
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, ExceptionContext, create_engine, event, inspect, text
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from grader.course import CourseError

WAIT_S = 60
"""how long a process waits for another one's transaction on SQLite"""
LOCK_ID = 0x6865616463686B  # PostgreSQL's advisory locks are numbers; this one is ours
VERSION_TABLE = "headcheck_version"
"""the table that says at which version a store is"""


class StoreError(CourseError):
    """A store that cannot be used; the message says which, why and what to do."""


def parse_url(location: str) -> URL:
    """The URL of a store: a file's name, or a URL of SQLite or PostgreSQL. Raises NoStore."""
    if "://" not in location:
        return URL.create("sqlite", database=location)
    try:
        url = make_url(location)
    except ArgumentError:
        raise StoreError("the store's URL is none; write postgresql://user@host/database") from None
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        raise StoreError(
            f"{url.drivername}: a store is a file of SQLite or a database of PostgreSQL"
        )
    return url


@contextmanager
def open_engine(location: str, *, create: bool = False) -> Iterator[Engine]:
    """The engine of a store at its newest version; closed with the context.

    Raises NoStore, also for a file that is not there unless `create` makes it.
    """
    url = parse_url(location)
    shown = url.render_as_string(hide_password=True) if "://" in location else location
    sqlite = url.get_backend_name() == "sqlite"
    memory = sqlite and url.database in (None, "", ":memory:")
    if sqlite and not memory and not create and not Path(str(url.database)).exists():
        raise StoreError(f"{shown}: no such store; `headcheck grade … --store {shown}` makes one")
    try:
        # One connection at a time, and none kept: SQLite's must not cross a fork.
        engine = create_engine(url) if memory else create_engine(url, poolclass=NullPool)
    except ImportError as error:
        raise StoreError(f"{shown}: needs the driver {error.name}: pip install psycopg") from None
    if sqlite:
        event.listen(engine, "connect", _configure_connection)
        event.listen(engine, "begin", _begin_transaction)
    try:
        with begin_write(engine) as connection:
            _upgrade(connection, shown)
    except SQLAlchemyError as error:
        engine.dispose()
        raise StoreError(f"{shown}: cannot be opened: {_format_reason(error)}") from None
    event.listen(
        engine, "handle_error", lambda context: _translate_error(context, shown), retval=True
    )
    try:
        yield engine
    finally:
        engine.dispose()


@contextmanager
def begin_write(engine: Engine) -> Iterator[Connection]:
    """A transaction that writes: all of it, or nothing."""
    with engine.execution_options(writes=True).begin() as connection:
        yield connection


def _configure_connection(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # else the driver begins transactions when it likes
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout={WAIT_S * 1000}")
    cursor.execute("PRAGMA journal_mode=WAL")
    cursor.execute("PRAGMA synchronous=FULL")
    cursor.execute("PRAGMA foreign_keys=ON")
    cursor.close()


def _begin_transaction(connection: Connection) -> None:
    writes = connection.get_execution_options().get("writes", False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")


def _upgrade(connection: Connection, shown: str) -> None:
    """To the newest version, in this transaction. Raises NoStore for what is no store of ours."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK_ID})
    config = make_alembic_config()
    script = ScriptDirectory.from_config(config)
    there = get_revision(connection)
    if there == script.get_current_head():
        return
    if there is None and (tables := set(inspect(connection).get_table_names()) - {VERSION_TABLE}):
        raise StoreError(f"{shown}: is another program's database; it has a table {min(tables)!r}")
    if there is not None and there not in {each.revision for each in script.walk_revisions()}:
        raise StoreError(
            f"{shown}: was written by a newer headcheck (version {there}); install that"
        )
    config.attributes["connection"] = connection
    command.upgrade(config, "head")


def get_revision(connection: Connection) -> str | None:
    """The version that a store is at; None before the first migration."""
    return MigrationContext.configure(
        connection, opts={"version_table": VERSION_TABLE}
    ).get_current_revision()


def make_alembic_config(**attributes: Any) -> Config:
    """Alembic's, for these migrations."""
    config = Config(attributes=attributes)
    # Alembic interpolates: a percent sign in the path would begin a variable.
    folder = str(Path(__file__).parent / "migrations").replace("%", "%%")
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    return config


def _translate_error(context: ExceptionContext, shown: str) -> StoreError | None:
    """What to raise where the database, or the disk below it, gives up in the middle of the work.

    None for what is no matter of theirs: it is a fault of ours.
    """
    error = context.sqlalchemy_exception
    if error is None or type(error) not in (OperationalError, DatabaseError):
        return None
    text = "what was finished is kept: mend that, and give the same command again"
    return StoreError(f"{shown}: {_format_reason(error)}; {text}")


def _format_reason(error: SQLAlchemyError) -> str:
    """The driver's words without the statement, which would fill the screen."""
    said = getattr(error, "orig", None) or error
    return " ".join(str(said).split())[:300]
