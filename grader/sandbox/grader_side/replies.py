"""The forms of a worker's replies. A submission may send anything in its place.

What does not have the form that was asked for is the submission's failure, like an exception.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

import msgspec

from headcheck.grader.sandbox.grader_side.crash_reply import parse_crash
from headcheck.grader.sandbox.wire import Message
from headcheck.grader.sandbox.worker.errors import MESSAGE_LIMIT
from headcheck.properties.subject import TensorInfo
from headcheck.properties.violation import Status, SubmissionFailed


@dataclass(frozen=True)
class HandleReply:
    """The handle of a new object, for later requests."""

    handle: int


@dataclass(frozen=True)
class NamesReply:
    """A list of names."""

    names: list[str]


@dataclass(frozen=True)
class ModesReply:
    """Whether a module and each of its parts are in training."""

    modes: list[bool]


@dataclass(frozen=True)
class AlteredReply:
    """The changes of a call to its inputs; the outputs come as tensors."""

    altered: tuple[str, ...] = ()


@dataclass(frozen=True)
class GradientsReply:
    """How many numbers were held for gradients, if counted; the gradients come as tensors."""

    kept: int = 0
    held: int = 0


@dataclass(frozen=True)
class DecodeReply:
    """The results of several calls with a cache; the outputs come as tensors."""

    forms: tuple[str, ...]
    held: tuple[int, ...]
    kept: tuple[int, ...]


@dataclass(frozen=True)
class TensorsReply:
    """The registered tensors of a module."""

    tensors: dict[str, TensorInfo]


@dataclass(frozen=True)
class ForwardReply:
    """The observations in a call; the outputs come as tensors."""

    form: str
    dtypes: tuple[str, ...]
    devices: tuple[str, ...]
    printed: int
    random_state_moved: bool
    training_after: bool
    earlier_result_changed: bool
    config_changed: bool
    called: tuple[str, ...]
    held: int
    altered: tuple[str, ...]
    unmoved: tuple[str, ...]


MAX_POSITION = 100_000
"""no cell and no line has a number this large"""
ReplyForm = TypeVar("ReplyForm")


def parse_reply(reply: Message, form: type[ReplyForm]) -> ReplyForm:
    """Convert the metadata of a reply. Raises SubmissionFailed if it has another form.

    A submission shares a process with the worker that answers for it, and may answer in its place.
    """
    try:
        return msgspec.convert(dict(reply.meta), form)
    except msgspec.ValidationError as error:
        text = f"answered something that was not asked: {error}"
        raise SubmissionFailed(Status.CRASHED, text) from None


def parse_handle(reply: Message) -> int:
    """Return the handle of a new object."""
    return parse_reply(reply, HandleReply).handle


def make_failure(meta: Mapping[str, Any]) -> SubmissionFailed:
    """Convert an exception of the submission into a SubmissionFailed."""
    status = Status.OUT_OF_MEMORY if is_out_of_memory(meta) else Status.CRASHED
    return SubmissionFailed(
        status,
        get_message(meta),
        parse_position(meta.get("cell")),
        parse_position(meta.get("line")),
        crash=parse_crash(meta.get("crash")),
    )


def parse_position(number: object) -> int | None:
    """Return the number of a cell or line if it can be one: a submission may send anything."""
    return number if isinstance(number, int) and 0 < number < MAX_POSITION else None


def get_message(meta: Mapping[str, Any]) -> str:
    """Return the message of the exception."""
    return str(meta.get("message", "it raised an exception that cannot be shown"))[:MESSAGE_LIMIT]


def is_out_of_memory(meta: Mapping[str, Any]) -> bool:
    """Return whether the exception says that memory ran out."""
    return meta.get("type") in (
        "MemoryError",
        "OutOfMemoryError",
    ) or "can't allocate" in get_message(meta)
