"""The maximum of which a decided score is a share."""

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"


def upgrade() -> None:
    """Add the column; earlier decisions do not know it."""
    op.add_column("overrides", sa.Column("max_score", sa.Float))
