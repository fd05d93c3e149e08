"""The tables of a store, as the newest migration leaves them.

A *judgement* is what judging some bytes under some settings gave: it has no student. A
*submission* says that a student's file, in a run, has that judgement. So the same bytes are judged
once, whoever hands them in and in whichever run, and a regrade changes which judgements count,
never the judgements.

JSON is stored as text: PostgreSQL's own type refuses the character 0, which a message may hold.
"""

from sqlalchemy import (
    Boolean,
    Column,
    Float,
    ForeignKey,
    Index,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    UniqueConstraint,
)

METADATA = MetaData(
    naming_convention={
        "ix": "ix_%(column_0_N_label)s",
        "uq": "uq_%(table_name)s_%(column_0_N_name)s",
        "fk": "fk_%(table_name)s_%(column_0_name)s",
        "pk": "pk_%(table_name)s",
    }
)
DIGEST = String(64)
"""SHA-256 in hexadecimal"""
TIME = String(32)
"""UTC, as in ISO 8601: sorts as it is"""

runs = Table(
    "runs",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", Text, nullable=False),
    Column("key", DIGEST, nullable=False),  # of all in the manifest that a verdict depends on
    Column("created", TIME, nullable=False),
    Column("manifest", Text, nullable=False),
    Index("ix_runs_name_id", "name", "id"),
)
contents = Table(
    "contents",
    METADATA,
    Column("digest", DIGEST, primary_key=True),
    Column("size", Integer, nullable=False),
    Column("compressed", LargeBinary, nullable=False),  # zlib
)
judgements = Table(
    "judgements",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("content", DIGEST, nullable=False),  # also of what could not be opened: no such row
    Column("kind", String(8), nullable=False),
    Column("key", DIGEST, nullable=False),
    Column("judged", TIME, nullable=False),
    UniqueConstraint("content", "kind", "key"),
)
verdicts = Table(
    "verdicts",
    METADATA,
    Column("judgement", ForeignKey("judgements.id"), primary_key=True),
    Column("position", Integer, primary_key=True),
    Column("exercise", Text),
    Column("name", Text),
    Column("status", String(32), nullable=False),
    Column("score", Float, nullable=False),
    Column("max_score", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("diagnosis", Text),  # the name of the first mistake found
    Column("record", Text, nullable=False),  # a SubmissionRecord of docs/report-format.md
)
submissions = Table(
    "submissions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("student", Text, nullable=False),
    Column("name", Text, nullable=False),
    Column("email", Text, nullable=False),
    Column("handle", Text, nullable=False),
    Column("file", Text, nullable=False),
    Column("place", DIGEST, nullable=False),  # of student, attempt and file: these may be long
    Column("attempt", Integer, nullable=False),
    Column("late", Boolean, nullable=False),
    Column("submitted", TIME),
    Column("judgement", ForeignKey("judgements.id"), nullable=False),
    UniqueConstraint("run", "place"),
    Index("ix_submissions_judgement", "judgement"),
)
# What people decide belongs to a run's name and so outlives every regrade. Rows are only added:
# the newest counts, the others say what was before.
overrides = Table(
    "overrides",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", Text, nullable=False),
    Column("student", Text, nullable=False),
    Column("exercise", Text, nullable=False),
    Column("score", Float),  # null takes an earlier one back
    Column("reason", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("created", TIME, nullable=False),
    Index("ix_overrides_run", "run"),
)
comments = Table(
    "comments",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", Text, nullable=False),
    Column("student", Text, nullable=False),
    Column("exercise", Text, nullable=False),  # empty: about all that was handed in
    Column("text", Text, nullable=False),
    Column("author", Text, nullable=False),
    Column("created", TIME, nullable=False),
    Index("ix_comments_run", "run"),
)
