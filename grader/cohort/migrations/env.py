"""What Alembic runs to upgrade: on the connection of `grader.cohort.database`, which it is given.

One transaction holds the whole upgrade, on SQLite too: an interrupted one leaves no half.
"""

from alembic import context

from grader.cohort.database import MARK
from grader.cohort.schema import METADATA

context.configure(
    connection=context.config.attributes["connection"],
    target_metadata=METADATA,
    version_table=MARK,
    transactional_ddl=True,
    render_as_batch=True,  # SQLite alters a table by making another
)
context.run_migrations()
