"""Open a store, SQLite in one file or PostgreSQL by URL, and migrate it to the newest version.

Theory. Committed data survives any failure of this process or the machine: SQLite uses a
write-ahead log and waits for the disk (WAL, synchronous=FULL). A writing transaction takes the lock
at its start, so that two processes with the same store wait for each other and neither fails
midway. Alembic is imported only if a store does not have the newest version, since the import takes
as long as reading the store.
"""

import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sqlalchemy import (
    Connection,
    Engine,
    ExceptionContext,
    column,
    create_engine,
    event,
    inspect,
    select,
    table,
    text,
)
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DatabaseError, OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from headcheck.grader.course import CourseError

if TYPE_CHECKING:
    from alembic.config import Config

WAIT_S = 60
"""how long a process waits for another process's transaction on SQLite"""
LOCK_ID = 0x6865616463686B  # our advisory lock: PostgreSQL identifies them by number
VERSION_TABLE = "headcheck_version"
"""the table that holds the version of a store"""
NEWEST_REVISION = "0004"
"""the version of a store after the last migration"""


class StoreError(CourseError):
    """A store cannot be used; the message says which one, why, and what to do."""


def parse_url(location: str) -> URL:
    """Return the URL of a store, given as a file name or a URL. Raises StoreError."""
    if "://" not in location:
        return URL.create("sqlite", database=location)
    try:
        url = make_url(location)
    except ArgumentError:
        text = "the store's URL is not valid; write postgresql://user@host/database"
        raise StoreError(text) from None
    if url.drivername in ("postgres", "postgresql"):
        return url.set(drivername="postgresql+psycopg")
    if url.get_backend_name() not in ("sqlite", "postgresql"):
        text = "a store is a file of SQLite or a database of PostgreSQL"
        raise StoreError(f"{url.drivername}: {text}")
    return url


@contextmanager
def open_engine(location: str, *, create: bool = False) -> Iterator[Engine]:
    """Yield the engine of a store at its newest version; closed with the context.

    Raises StoreError, also for a file that does not exist, unless `create` makes it.
    """
    url = parse_url(location)
    shown = url.render_as_string(hide_password=True) if "://" in location else location
    sqlite = url.get_backend_name() == "sqlite"
    memory = sqlite and url.database in (None, "", ":memory:")
    if sqlite and not memory and not create and not Path(str(url.database)).exists():
        raise StoreError(f"{shown}: no such store; `headcheck grade … --store {shown}` makes one")
    try:
        # No pool: a connection to SQLite must not cross a fork.
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
    """Begin a transaction that writes all or nothing."""
    with engine.execution_options(writes=True).begin() as connection:
        yield connection


def _configure_connection(connection: sqlite3.Connection, _: object) -> None:
    connection.isolation_level = None  # else the driver begins transactions on its own
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
    """Migrate to the newest version. Raises StoreError if the database is not a known store."""
    if connection.dialect.name == "postgresql":
        connection.execute(text("SELECT pg_advisory_xact_lock(:lock)"), {"lock": LOCK_ID})
    revision = get_revision(connection)
    if revision == NEWEST_REVISION:
        return
    tables = set(inspect(connection).get_table_names()) - {VERSION_TABLE}
    if revision is None and tables:
        raise StoreError(f"{shown}: is another program's database; it has a table {min(tables)!r}")
    from alembic import command
    from alembic.script import ScriptDirectory

    config = make_alembic_config(connection=connection)
    script = ScriptDirectory.from_config(config)
    if revision is not None and revision not in {s.revision for s in script.walk_revisions()}:
        advice = f"was written by a newer headcheck (version {revision}); install that"
        raise StoreError(f"{shown}: {advice}")
    command.upgrade(config, "head")


def get_revision(connection: Connection) -> str | None:
    """Return the version of a store; None before the first migration."""
    if not inspect(connection).has_table(VERSION_TABLE):
        return None
    return connection.scalar(select(column("version_num")).select_from(table(VERSION_TABLE)))


def make_alembic_config(**attributes: Any) -> "Config":
    """Return Alembic's configuration for these migrations."""
    from alembic.config import Config

    config = Config(attributes=attributes)
    # Alembic interpolates: a percent sign in the path would begin a variable.
    folder = str(Path(__file__).parent / "migrations").replace("%", "%%")
    config.set_main_option("script_location", folder)
    config.set_main_option("path_separator", "os")
    return config


def _translate_error(context: ExceptionContext, shown: str) -> StoreError | None:
    """Return the StoreError for a failure of the database or its disk during the work.

    Returns None for any other error, which is an internal one.
    """
    error = context.sqlalchemy_exception
    if error is None or type(error) not in (OperationalError, DatabaseError):
        return None
    text = "finished work is kept: repair this, and give the same command again"
    return StoreError(f"{shown}: {_format_reason(error)}; {text}")


def _format_reason(error: SQLAlchemyError) -> str:
    """Return the driver's message without the statement, which would fill the screen."""
    reason = getattr(error, "orig", None) or error
    return " ".join(str(reason).split())[:300]
