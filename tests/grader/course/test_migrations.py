"""Migrations lead to the tables that the code expects, from nothing and from every version."""

from pathlib import Path
from typing import Any

import pytest
from alembic import command
from alembic.autogenerate import compare_metadata
from alembic.config import Config
from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, create_engine, inspect, text

from headcheck.grader.course.store import database
from headcheck.grader.course.store.database import (
    StoreError,
    begin_write,
    make_alembic_config,
    open_engine,
)
from headcheck.grader.course.store.schema import METADATA


def differences(connection: Connection) -> list[Any]:
    context = MigrationContext.configure(connection, opts={"version_table": database.VERSION_TABLE})
    return list(compare_metadata(context, METADATA))


def test_the_migrations_lead_to_the_tables_of_the_code(store_url: str) -> None:
    with open_engine(store_url, create=True) as engine, engine.connect() as connection:
        assert differences(connection) == []
        there = set(inspect(connection).get_table_names())
        assert there == {*METADATA.tables, database.VERSION_TABLE}


@pytest.mark.parametrize("version", ["0001", "0002", "0003"])
def test_a_store_of_every_earlier_version_is_upgraded(store_url: str, version: str) -> None:
    engine = create_engine(database.parse_url(store_url))
    with engine.begin() as connection:
        command.upgrade(make_alembic_config(connection=connection), version)
        assert differences(connection) != []
    engine.dispose()
    with open_engine(store_url) as engine, engine.connect() as connection:
        assert differences(connection) == []


def test_opening_again_changes_nothing(store_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with open_engine(store_url, create=True):
        pass
    monkeypatch.setattr(command, "upgrade", None)
    with open_engine(store_url) as engine, engine.connect() as connection:
        head = ScriptDirectory.from_config(make_alembic_config()).get_current_head()
        assert database.get_revision(connection) == head == database.NEWEST_REVISION


def test_an_upgrade_that_fails_leaves_nothing_half_done(
    store_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fails(config: Config, revision: str) -> None:
        upgrade(config, revision)
        raise KeyboardInterrupt

    upgrade = command.upgrade
    monkeypatch.setattr(command, "upgrade", fails)
    with pytest.raises(KeyboardInterrupt), open_engine(store_url, create=True):
        pass
    engine = create_engine(database.parse_url(store_url))
    with engine.connect() as connection:
        assert inspect(connection).get_table_names() == []
    engine.dispose()


def test_a_store_of_a_newer_version_is_refused(store_url: str) -> None:
    with open_engine(store_url, create=True) as engine, begin_write(engine) as connection:
        connection.execute(text("UPDATE headcheck_version SET version_num = '9999'"))
    told = r"by a newer headcheck \(version 9999\)"
    with pytest.raises(StoreError, match=told), open_engine(store_url):
        pass


def test_sqlite_writes_ahead_and_waits_for_the_disk(tmp_path: Path) -> None:
    with open_engine(str(tmp_path / "c.db"), create=True) as engine, engine.connect() as connection:
        told = {
            name: connection.exec_driver_sql(f"PRAGMA {name}").scalar()
            for name in ("journal_mode", "synchronous", "foreign_keys", "busy_timeout")
        }
    full = 2
    assert tuple(told.values()) == ("wal", full, 1, database.WAIT_S * 1000)
