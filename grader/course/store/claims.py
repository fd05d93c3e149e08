"""Share the files of a run among the commands that grade it: each takes the next one that is free.

Theory. A row of `tasks` stands for a content that has yet to be judged. A command that judges it
holds a lock: on PostgreSQL the lock of the row, in a transaction that lasts as long; on SQLite the
lock of a byte in a file beside the store. The system releases the lock if the process, its machine
or the network between is lost, and another command takes the content. The row is removed after its
judgement is saved. So a content whose row is gone is done, and one whose row is locked is in hand.
"""

import contextlib
import errno
import hashlib
import os
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import Connection, Engine, delete, func, select
from sqlalchemy.dialects.postgresql import array

from headcheck.grader.course.store.database import StoreError, begin_write
from headcheck.grader.course.store.rows import insert_absent, select_settled, split_batches
from headcheck.grader.course.store.schema import tasks

ContentKey = tuple[str, str]
"""the key of a `FileContent`"""
BATCH = 50
"""how many rows a command looks at to find one that is free"""
LOCK_FILE = "-locks"
"""what follows the name of an SQLite store in the name of the file whose bytes are locked"""
SETTINGS = (
    # So that the server notices within a minute that a machine is gone.
    ("tcp_keepalives_idle", "30"),
    ("tcp_keepalives_interval", "10"),
    ("tcp_keepalives_count", "3"),
    # While a file is judged, nothing is asked.
    ("idle_in_transaction_session_timeout", "0"),
)


@dataclass(frozen=True)
class RowLocks:
    """Locks of rows in PostgreSQL: a connection, and a transaction, for each one that is held."""

    engine: Engine
    held: dict[str, Connection] = field(default_factory=dict)

    def lock_one(self, digests: Sequence[str]) -> str | None:
        """Lock the first of these tasks that is there and free; None if there is none."""
        free = tasks.c.digest.in_(digests)
        order = func.array_position(array(digests), tasks.c.digest)
        query = select(tasks.c.digest).where(free).order_by(order).limit(1)
        # A later statement has to see what others have saved before the lock was free.
        connection = self.engine.connect().execution_options(isolation_level="READ COMMITTED")
        with contextlib.ExitStack() as stack:
            stack.callback(connection.close)
            connection.execute(select(*(func.set_config(*each, True) for each in SETTINGS)))
            digest = connection.scalar(query.with_for_update(skip_locked=True))
            if digest is None:
                return None
            self.held[digest] = connection
            stack.pop_all()
        return str(digest)

    def connect(self, digest: str) -> contextlib.AbstractContextManager[Connection]:
        """Return the connection that holds the lock, since another one takes time to open."""
        return contextlib.nullcontext(self.held[digest])

    def remove(self, digest: str) -> None:
        """Remove a locked task, and release the lock."""
        with contextlib.closing(self.held.pop(digest)) as connection:
            connection.execute(delete(tasks).where(tasks.c.digest == digest))
            connection.commit()

    def release(self, digest: str) -> None:
        """Release a lock; the task stays."""
        self.held.pop(digest).close()


@dataclass(frozen=True)
class ByteLocks:
    """Locks of bytes in a file, for the processes that share an SQLite store on one machine.

    The kernel keeps them by process. It drops all of them when the process closes the file, and so
    it must not be opened twice.
    """

    engine: Engine
    file: int | None
    """the descriptor; None if no other process can have the store"""
    held: set[str] = field(default_factory=set)

    def lock_one(self, digests: Sequence[str]) -> str | None:
        """Lock the first of these tasks that is there and free; None if there is none."""
        with self.engine.connect() as connection:
            there = find_tasks(connection, digests)
        for digest in (each for each in digests if each in there):
            if self._lock(digest):
                self.held.add(digest)
                with self.engine.connect() as connection:
                    if find_tasks(connection, [digest]):
                        return digest
                self.release(digest)
        return None

    def connect(self, digest: str) -> contextlib.AbstractContextManager[Connection]:
        """Return a connection to read with."""
        return self.engine.connect()

    def remove(self, digest: str) -> None:
        """Remove a locked task, and release the lock."""
        with begin_write(self.engine) as connection:
            connection.execute(delete(tasks).where(tasks.c.digest == digest))
        self.release(digest)

    def release(self, digest: str) -> None:
        """Release a lock; the task stays."""
        self.held.remove(digest)
        if self.file is not None:
            import fcntl

            fcntl.lockf(self.file, fcntl.LOCK_UN, 1, _get_offset(digest))

    def _lock(self, digest: str) -> bool:
        if self.file is None:
            return True
        import fcntl

        try:
            fcntl.lockf(self.file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _get_offset(digest))
        except OSError as error:
            if error.errno in (errno.EACCES, errno.EAGAIN):
                return False
            raise _make_lock_error(self.engine, error) from None
        return True


def _get_offset(digest: str) -> int:
    return int(digest[:15], 16)


@dataclass(frozen=True)
class Claims:
    """The contents that a command wants judged, and those that it has taken."""

    engine: Engine
    key: str
    """the key of the settings under which they are judged"""
    locks: RowLocks | ByteLocks
    waiting: dict[str, ContentKey] = field(default_factory=dict)
    """what it has neither taken nor found done, by task"""
    taken: dict[ContentKey, str] = field(default_factory=dict)
    """the tasks whose locks it holds"""

    def announce(self, contents: Iterable[ContentKey]) -> None:
        """Say what there is to judge; other commands may have said the same."""
        for each in contents:
            digest = hashlib.sha256("\0".join((*each, self.key)).encode()).hexdigest()
            self.waiting[digest] = each
        # Sorted, so that two commands that do this at once do not wait for each other.
        rows = [{"digest": digest} for digest in sorted(self.waiting)]
        with begin_write(self.engine) as connection:
            for batch in split_batches(rows):
                insert_absent(connection, tasks, batch)

    def take(self) -> ContentKey | None:
        """Take the next content that nobody has taken; None if there is none at the moment.

        If nothing is `waiting` either, all of them are done or taken by this command.
        """
        for batch in split_batches(list(self.waiting), BATCH):
            while left := [digest for digest in batch if digest in self.waiting]:
                digest = self.locks.lock_one(left)
                if digest is None:
                    self._forget_done(left)
                    break
                content = self.waiting.pop(digest)
                if not self._is_settled(digest, content):
                    self.taken[content] = digest
                    return content
                self.locks.remove(digest)
        return None

    def _is_settled(self, digest: str, content: ContentKey) -> bool:
        """Whether a content was judged since it was found to be without a judgement."""
        with self.locks.connect(digest) as connection:
            found = connection.execute(select_settled(self.key).filter_by(content=content[0]))
            return any(row.kind == content[1] for row in found)

    def _forget_done(self, batch: Sequence[str]) -> None:
        with self.engine.connect() as connection:
            there = find_tasks(connection, batch)
        for digest in batch:
            if digest not in there:
                self.waiting.pop(digest, None)

    def finish(self, content: ContentKey) -> None:
        """Say that the judgement of a content is saved."""
        self.locks.remove(self.taken.pop(content))

    def release(self) -> None:
        """Leave to others what was taken and not finished."""
        while self.taken:
            self.locks.release(self.taken.popitem()[1])


def find_tasks(connection: Connection, digests: Sequence[str]) -> set[str]:
    """Return which of these tasks are there."""
    query = select(tasks.c.digest).where(tasks.c.digest.in_(digests))
    return {str(each) for each in connection.scalars(query)}


@contextlib.contextmanager
def open_claims(engine: Engine, key: str) -> Iterator[Claims]:
    """Yield claims under these settings; at the end of the context no lock is left."""
    with contextlib.ExitStack() as stack:
        if engine.dialect.name == "postgresql":
            claims = Claims(engine, key, RowLocks(engine))
        else:
            claims = Claims(engine, key, ByteLocks(engine, _open_lock_file(engine, stack)))
        stack.callback(claims.release)
        yield claims


def _open_lock_file(engine: Engine, stack: contextlib.ExitStack) -> int | None:
    """Open the file whose bytes are locked; None for a store in memory, or on Windows."""
    database = engine.url.database
    if database in (None, "", ":memory:") or os.name == "nt":
        return None
    try:
        mode = stat.S_IMODE(Path(str(database)).stat().st_mode)  # whoever has the store has this
        file = os.open(f"{database}{LOCK_FILE}", os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, mode)
    except OSError as error:
        raise _make_lock_error(engine, error) from None
    stack.callback(os.close, file)
    return file


def _make_lock_error(engine: Engine, error: OSError) -> StoreError:
    file, why = f"{engine.url.database}{LOCK_FILE}", error.strerror
    return StoreError(f"{file}: cannot be locked: {why}; use a store where this file can be locked")
