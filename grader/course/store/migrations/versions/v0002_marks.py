"""Marks by hand, and the secret behind the numbers of a run's students."""

import sqlalchemy as sa
from alembic import op

revision = "0002"
down_revision = "0001"


def upgrade() -> None:
    """Make both tables."""
    op.create_table(
        "marks",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("student", sa.Text, nullable=False),
        sa.Column("exercise", sa.Text, nullable=False),
        sa.Column("criterion", sa.Text, nullable=False),
        sa.Column("points", sa.Float),
        sa.Column("comment", sa.Text, nullable=False),
        sa.Column("author", sa.Text, nullable=False),
        sa.Column("created", sa.String(32), nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_marks"),
    )
    op.create_index("ix_marks_run", "marks", ["run"])
    op.create_table(
        "secrets",
        sa.Column("run", sa.Text, nullable=False),
        sa.Column("secret", sa.String(64), nullable=False),
        sa.PrimaryKeyConstraint("run", name="pk_secrets"),
    )
