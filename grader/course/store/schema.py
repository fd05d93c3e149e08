"""The tables of a store, as the newest migration leaves them.

A *judgement* is the result of grading some bytes under some settings; it belongs to no student. A
*submission* links a student's file in a run to a judgement. So the same bytes are graded only once
for all students and runs. A regrade changes which judgements count, and never the judgements
themselves.

JSON is stored as text: PostgreSQL's own type rejects the character 0, which a message may contain.
"""

from typing import Any

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
    TypeDecorator,
    UniqueConstraint,
)

from headcheck.grader.course.store.records import sanitize_text

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
"""UTC in ISO 8601, which sorts as text"""


class CleanText(TypeDecorator[str]):
    """Text from outside: every value is sanitised on its way into a row or a query."""

    impl = Text
    cache_ok = True

    def process_bind_param(self, value: str | None, dialect: Any) -> str | None:
        return None if value is None else sanitize_text(value)


runs = Table(
    "runs",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("name", CleanText, nullable=False),
    Column("key", DIGEST, nullable=False),  # digest of what verdicts depend on
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
    Column("content", DIGEST, nullable=False),  # no foreign key: unreadable files have no contents
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
    Column("exercise", CleanText),
    Column("name", CleanText),
    Column("status", String(32), nullable=False),
    Column("score", Float, nullable=False),
    Column("max_score", Float, nullable=False),
    Column("seconds", Float, nullable=False),
    Column("diagnosis", Text),  # the first diagnosed mistake
    Column("record", CleanText, nullable=False),  # a SubmissionRecord of docs/report-format.md
)
tasks = Table(  # what commands have yet to judge: see claims.py
    "tasks",
    METADATA,
    Column("digest", DIGEST, primary_key=True),  # of content, kind and key
)
submissions = Table(
    "submissions",
    METADATA,
    Column("id", Integer, primary_key=True),
    Column("run", ForeignKey("runs.id"), nullable=False),
    Column("student", CleanText, nullable=False),
    Column("name", CleanText, nullable=False),
    Column("email", CleanText, nullable=False),
    Column("handle", CleanText, nullable=False),
    Column("file", CleanText, nullable=False),
    Column("place", DIGEST, nullable=False),  # digest of student, attempt and file
    Column("attempt", Integer, nullable=False),
    Column("late", Boolean, nullable=False),
    Column("submitted", TIME),
    Column("judgement", ForeignKey("judgements.id"), nullable=False),
    UniqueConstraint("run", "place"),
    Index("ix_submissions_judgement", "judgement"),
)


def _make_decisions(name: str, *own: Column[Any]) -> Table:
    """Return a table of instructors' decisions.

    They belong to a run's name, so they survive every regrade. Rows are only added: the newest
    counts, the others are its history.
    """
    return Table(
        name,
        METADATA,
        Column("id", Integer, primary_key=True),
        Column("run", CleanText, nullable=False),
        Column("student", CleanText, nullable=False),
        Column("exercise", CleanText, nullable=False),  # empty: about the whole submission
        *own,
        Column("author", CleanText, nullable=False),
        Column("created", TIME, nullable=False),
        Index(f"ix_{name}_run", "run"),
    )


overrides = _make_decisions(
    "overrides",
    Column("score", Float),  # null clears an earlier one
    Column("reason", CleanText, nullable=False),
    Column("max_score", Float),  # null if decided before it was kept
)
comments = _make_decisions("comments", Column("text", CleanText, nullable=False))
marks = _make_decisions(
    "marks",
    Column("criterion", CleanText, nullable=False),  # its name in the course file
    Column("points", Float),  # null clears an earlier one
    Column("comment", CleanText, nullable=False),
)
secrets = Table(
    "secrets",
    METADATA,
    Column("run", CleanText, primary_key=True),
    Column("secret", DIGEST, nullable=False),  # the key of the numbers that stand for students
)
