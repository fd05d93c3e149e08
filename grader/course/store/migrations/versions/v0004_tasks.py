"""What commands that grade at the same time have yet to judge."""

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"


def upgrade() -> None:
    """Make the table."""
    op.create_table(
        "tasks",
        sa.Column("digest", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_tasks"),
    )
