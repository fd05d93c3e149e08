"""What Alembic runs to upgrade, on the connection that `database` gives it.

One transaction holds the whole upgrade, on SQLite too: an interrupted one leaves no half.
"""

from alembic import context

from grader.course.store.database import VERSION_TABLE
from grader.course.store.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=VERSION_TABLE,
    transactional_ddl=True,
    render_as_batch=True,  # SQLite alters a table by making another
)
context.run_migrations()
