"""The first tables."""

import sqlalchemy as sa
from alembic import op

revision = "0001"
down_revision = None
TIME = sa.String(32)
DIGEST = sa.String(64)


def upgrade() -> None:
    """Make all tables."""
    _create_runs()
    _create_judgements()
    _create_submissions()
    _create_decisions()


def _create_runs() -> None:
    op.create_table(
        "runs",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("created", TIME, nullable=False),
        sa.Column("manifest", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_runs"),
    )
    op.create_index("ix_runs_name_id", "runs", ["name", "id"])


def _create_judgements() -> None:
    op.create_table(
        "contents",
        sa.Column("digest", DIGEST, nullable=False),
        sa.Column("size", sa.Integer, nullable=False),
        sa.Column("compressed", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("digest", name="pk_contents"),
    )
    op.create_table(
        "judgements",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("content", DIGEST, nullable=False),
        sa.Column("kind", sa.String(8), nullable=False),
        sa.Column("key", DIGEST, nullable=False),
        sa.Column("judged", TIME, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_judgements"),
        sa.UniqueConstraint("content", "kind", "key", name="uq_judgements_content_kind_key"),
    )
    op.create_table(
        "verdicts",
        sa.Column("judgement", sa.Integer, nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("exercise", sa.Text),
        sa.Column("name", sa.Text),
        sa.Column("status", sa.String(32), nullable=False),
        sa.Column("score", sa.Float, nullable=False),
        sa.Column("max_score", sa.Float, nullable=False),
        sa.Column("seconds", sa.Float, nullable=False),
        sa.Column("diagnosis", sa.Text),
        sa.Column("record", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("judgement", "position", name="pk_verdicts"),
        sa.ForeignKeyConstraint(["judgement"], ["judgements.id"], name="fk_verdicts_judgement"),
    )


def _create_submissions() -> None:
    op.create_table(
        "submissions",
        sa.Column("id", sa.Integer, nullable=False),
        sa.Column("run", sa.Integer, nullable=False),
        sa.Column("student", sa.Text, nullable=False),
        sa.Column("name", sa.Text, nullable=False),
        sa.Column("email", sa.Text, nullable=False),
        sa.Column("handle", sa.Text, nullable=False),
        sa.Column("file", sa.Text, nullable=False),
        sa.Column("place", DIGEST, nullable=False),
        sa.Column("attempt", sa.Integer, nullable=False),
        sa.Column("late", sa.Boolean, nullable=False),
        sa.Column("submitted", TIME),
        sa.Column("judgement", sa.Integer, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_submissions"),
        sa.UniqueConstraint("run", "place", name="uq_submissions_run_place"),
        sa.ForeignKeyConstraint(["run"], ["runs.id"], name="fk_submissions_run"),
        sa.ForeignKeyConstraint(["judgement"], ["judgements.id"], name="fk_submissions_judgement"),
    )
    op.create_index("ix_submissions_judgement", "submissions", ["judgement"])


def _create_decisions() -> None:
    for table, what in (
        ("overrides", (sa.Column("score", sa.Float), sa.Column("reason", sa.Text, nullable=False))),
        ("comments", (sa.Column("text", sa.Text, nullable=False),)),
    ):
        op.create_table(
            table,
            sa.Column("id", sa.Integer, nullable=False),
            sa.Column("run", sa.Text, nullable=False),
            sa.Column("student", sa.Text, nullable=False),
            sa.Column("exercise", sa.Text, nullable=False),
            *what,
            sa.Column("author", sa.Text, nullable=False),
            sa.Column("created", TIME, nullable=False),
            sa.PrimaryKeyConstraint("id", name=f"pk_{table}"),
        )
        op.create_index(f"ix_{table}_run", table, ["run"])
