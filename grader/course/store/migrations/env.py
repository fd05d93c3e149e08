"""The script that Alembic runs to upgrade, on the connection that `database` passes to it.

The whole upgrade is one transaction, on SQLite too: an interrupted upgrade leaves nothing behind.
"""

from alembic import context

from headcheck.grader.course.store.database import VERSION_TABLE
from headcheck.grader.course.store.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
    render_as_batch=True,  # SQLite alters a table by copying it
)
context.run_migrations()
