"""Check a worker's replies: a submission may send anything in the worker's place.

A reply that does not have the form of its operation is a failure of the submission, like an
exception.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from headcheck.grader.sandbox.operations import MESSAGE_LIMIT
from headcheck.grader.sandbox.sentences import SENTENCES
from headcheck.grader.sandbox.wire import Message
from headcheck.properties.violations.crash import Crash, Piece
from headcheck.properties.violations.violation import Status, SubmissionFailed

MAX_POSITION = 100_000
"""no cell and no line has a number this large"""
Form = TypeVar("Form")
MAX_PIECES, MAX_PIECE = 12, 200
"""the most pieces of detail that a crash may have, and the most characters in each"""
MAX_AXES, MAX_LENGTH = 8, 10**9
"""the most axes of a shape, and the greatest length of each"""


def parse_reply(reply: Message, form: type[Form]) -> Form:
    """Convert the metadata of a reply. Raises SubmissionFailed if it has a different form.

    A submission shares a process with the worker that answers for it, so it may answer in the
    worker's place.
    """
    try:
        return msgspec.convert(dict(reply.meta), form)
    except msgspec.ValidationError as error:
        text = f"answered something that was not asked: {error}"
        raise SubmissionFailed(Status.CRASHED, text) from None


def make_failure(meta: Mapping[str, Any]) -> SubmissionFailed:
    """Convert an exception of the submission into a SubmissionFailed."""
    status = Status.OUT_OF_MEMORY if is_out_of_memory(meta) else Status.CRASHED
    return SubmissionFailed(
        status,
        get_message(meta),
        parse_position(meta.get("cell")),
        parse_position(meta.get("line")),
        crash=parse_crash(meta.get("crash")),
        raised=meta.get("type") not in ("SystemExit", "BuiltInAttentionCalled"),
    )


def parse_position(number: object) -> int | None:
    """Return the number of a cell or line if it can be one: a submission may send anything."""
    return number if isinstance(number, int) and 0 < number < MAX_POSITION else None


def get_message(meta: Mapping[str, Any]) -> str:
    """Return the message of the exception."""
    return str(meta.get("message", "it raised an exception that cannot be shown"))[:MESSAGE_LIMIT]


def is_out_of_memory(meta: Mapping[str, Any]) -> bool:
    """Return whether the exception says that memory ran out."""
    named = meta.get("type") in ("MemoryError", "OutOfMemoryError")
    return named or "can't allocate" in get_message(meta)


@dataclass(frozen=True)
class _CrashReply:
    name: str
    details: tuple[str | tuple[int, ...], ...] = ()


def parse_crash(found: object) -> Crash | None:
    """Return the crash: one of our sentences, and details within limits; None if there is none."""
    try:
        reply = msgspec.convert(found, _CrashReply)
    except msgspec.ValidationError:
        return None
    if reply.name not in SENTENCES:
        return None
    return Crash(SENTENCES[reply.name], tuple(map(_limit, reply.details[:MAX_PIECES])))


def _limit(piece: Piece) -> Piece:
    if isinstance(piece, tuple):
        return tuple(max(-1, min(length, MAX_LENGTH)) for length in piece[:MAX_AXES])
    # A line break would begin a row of the message that is not ours.
    return "".join(" " if letter.isspace() else letter for letter in piece[:MAX_PIECE])
