"""Parse a crash reported by a submission's process, which is not trusted."""

from dataclasses import dataclass

import msgspec

from headcheck.grader.sandbox.worker.crashes.sentences import SENTENCES
from headcheck.properties.violations.crash import Crash, Piece

MAX_PIECES, MAX_PIECE = 12, 200
"""the most pieces of detail that a crash may have, and the most characters in each"""
MAX_AXES, MAX_LENGTH = 8, 10**9
"""the most axes of a shape, and the greatest length of each"""


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
