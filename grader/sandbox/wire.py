"""The wire format between the grader process and the process that runs a submission.

    frame   = header length (u32) | body length (u64) | header (JSON) | body (raw tensors)
    header  = {"id", "op", "meta", "tensors": [[name, dtype, shape], ...]}

The body holds the tensors one after the other, little-endian and contiguous. A frame contains no
pickles or other code. The reader trusts nothing: lengths are checked before anything is allocated,
dtypes must be on a list, and shapes must fill the body exactly.
"""

import functools
import itertools
import math
import operator
import os
import select
import struct
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch
from torch import Tensor

LENGTHS = struct.Struct("<IQ")
MAX_HEADER = 4 << 20
SHORT_HEADER = 256 << 10
"""the most bytes of a header that does not grow with the submission"""
MAX_TENSORS = 4096
"""the most tensors in a frame that is read from a socket; stored frames may have more"""
MAX_BODY = 512 << 20
MAX_DIMENSIONS = 8
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (
        torch.float64,
        torch.float32,
        torch.float16,
        torch.bfloat16,
        torch.int64,
        torch.int32,
        torch.uint8,
        torch.bool,
    )
}
NAMES = {dtype: name for name, dtype in DTYPES.items()}


WaitMore = Callable[[], float]
"""returns how many seconds to wait before it is called again; may raise, for example TimeoutError
"""


class BadFrame(Exception):
    """The other side sent bytes that are not a valid frame."""


class _Header(msgspec.Struct):
    id: int
    op: str
    meta: dict[str, Any] = {}
    tensors: list[tuple[str, str, tuple[int, ...]]] = []


@dataclass(frozen=True, eq=False)
class Message:
    """One request or one reply."""

    id: int
    op: str
    meta: Mapping[str, Any] = field(default_factory=dict)
    tensors: tuple[tuple[str, Tensor], ...] = ()
    size: int = 0
    """total bytes of a frame that was read"""


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Header)


def encode(message: Message) -> list[bytes | memoryview]:
    """Encode a message as the parts of a frame, to be written one after the other.

    Raises BadFrame for a tensor with a dtype that the wire format does not support.
    """
    tensors = message.tensors
    headers, parts = tensors.packed if isinstance(tensors, PackedTensors) else pack_tensors(tensors)
    header = _ENCODER.encode(_Header(message.id, message.op, dict(message.meta), headers))
    lengths = LENGTHS.pack(len(header), sum(len(part) for part in parts))
    return [lengths + header, *parts]


TensorHeaders = list[tuple[str, str, tuple[int, ...]]]


def pack_tensors(tensors: Iterable[tuple[str, Tensor]]) -> tuple[TensorHeaders, list[memoryview]]:
    """Return the tensors' header entries and bytes; neighbours of one dtype share a buffer.

    Raises BadFrame.
    """
    headers: TensorHeaders = []
    parts: list[memoryview] = []
    for dtype, run in itertools.groupby(tensors, lambda each: each[1].dtype):
        if dtype not in NAMES:
            name = str(dtype).removeprefix("torch.")
            raise BadFrame(f"a tensor of dtype {name} cannot be sent")
        named = list(run)
        headers.extend((name, NAMES[dtype], tuple(tensor.shape)) for name, tensor in named)
        row = torch.cat([tensor.detach().reshape(-1) for _, tensor in named])
        if row.numel():
            parts.append(row.view(torch.uint8).numpy().data)
    return headers, parts


class PackedTensors(tuple[tuple[str, Tensor], ...]):
    """Tensors that are packed once and sent many times; their values must not be changed."""

    @functools.cached_property
    def packed(self) -> tuple[TensorHeaders, list[memoryview]]:
        headers, parts = pack_tensors(self)
        body = b"".join(parts)
        return headers, [memoryview(body)] if body else []


def decode(header: bytes, body: bytearray, max_tensors: int | None = None) -> Message:
    """Decode a frame. Raises BadFrame unless body and header match, within `max_tensors`."""
    try:
        parsed = _DECODER.decode(header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadFrame(f"unreadable header: {error}") from None
    if max_tensors is not None and len(parsed.tensors) > max_tensors:
        raise BadFrame(f"a frame of {len(parsed.tensors)} tensors is over the limit")
    tensors: list[tuple[str, Tensor]] = []
    offset = 0
    for dtype_name, run in itertools.groupby(parsed.tensors, operator.itemgetter(1)):
        names, _, shapes = zip(*run, strict=True)
        counts = [_count_numbers(shape) for shape in shapes]
        end = offset + sum(counts) * _get_dtype(dtype_name).itemsize
        if end > len(body):
            raise BadFrame("a tensor reaches beyond the body")
        row = _build_row(DTYPES[dtype_name], body, offset, sum(counts))
        # Each gets memory of its own; autograd treats views differently.
        parts = zip(row.split(counts), shapes, strict=True)
        shaped = (part.clone().resize_(shape) for part, shape in parts)
        tensors.extend(zip(names, shaped, strict=True))
        offset = end
    if offset != len(body):
        raise BadFrame(f"{len(body) - offset} bytes belong to no tensor")
    return Message(parsed.id, parsed.op, parsed.meta, tuple(tensors), len(header) + len(body))


def _get_dtype(name: str) -> torch.dtype:
    if name not in DTYPES:
        raise BadFrame(f"unknown dtype {name[:40]!r}")
    return DTYPES[name]


def _count_numbers(shape: tuple[int, ...]) -> int:
    if len(shape) > MAX_DIMENSIONS or (shape and not 0 <= min(shape) <= max(shape) <= MAX_BODY):
        raise BadFrame("impossible shape")
    count = math.prod(shape)
    # Even an empty tensor has strides, and torch refuses strides that overflow.
    if (count or math.prod(max(n, 1) for n in shape)) > MAX_BODY:
        raise BadFrame("impossible shape")
    return count


def _build_row(dtype: torch.dtype, body: bytearray, offset: int, count: int) -> Tensor:
    """Return a view of consecutive numbers in a body."""
    if not count:
        return torch.empty(0, dtype=dtype)
    if dtype is torch.bool:
        flags = torch.frombuffer(body, dtype=torch.uint8, count=count, offset=offset)
        if flags.max() > 1:
            raise BadFrame("a bool that is neither 0 nor 1")
    return torch.frombuffer(body, dtype=dtype, count=count, offset=offset)


def write(fd: int, message: Message, wait_more: WaitMore | None = None) -> None:
    """Send a frame; if the file descriptor is blocking, this may wait forever.

    Raises BrokenPipeError, BadFrame, and any exception of `wait_more`.
    """
    pending = [memoryview(part) for part in encode(message)]
    while pending:
        try:
            sent = os.writev(fd, pending[:64])
        except BlockingIOError:
            _wait(fd, wait_more, writing=True)
            continue
        while pending and sent >= len(pending[0]):
            sent -= len(pending.pop(0))
        if sent:
            pending[0] = pending[0][sent:]


def read(
    fd: int,
    wait_more: WaitMore | None = None,
    max_body: int = MAX_BODY,
    max_header: int = MAX_HEADER,
) -> Message:
    """Receive a frame; if the file descriptor is blocking, this may wait forever.

    Raises EOFError, BadFrame, and any exception of `wait_more`.
    """
    header_size, body_size = LENGTHS.unpack(_read_exactly(fd, LENGTHS.size, wait_more))
    if header_size > max_header or body_size > max_body:
        raise BadFrame(f"a frame of {header_size} + {body_size} bytes is over the limit")
    header = bytes(_read_exactly(fd, header_size, wait_more))
    return decode(header, _read_exactly(fd, body_size, wait_more), MAX_TENSORS)


def _read_exactly(fd: int, length: int, wait_more: WaitMore | None) -> bytearray:
    buffer = bytearray(length)
    rest = memoryview(buffer)
    while rest:
        try:
            count = os.readv(fd, [rest])
        except BlockingIOError:
            _wait(fd, wait_more, writing=False)
            continue
        except ConnectionResetError:
            count = 0
        if count == 0:
            raise EOFError
        rest = rest[count:]
    return buffer


def _wait(fd: int, wait_more: WaitMore | None, *, writing: bool) -> None:
    if wait_more is None:
        return
    # Unlike select, poll accepts file descriptors above 1023.
    poll = select.poll()
    poll.register(fd, select.POLLOUT if writing else select.POLLIN)
    while not poll.poll(wait_more() * 1000):
        pass


def label_by_name(tensors: Mapping[str, Tensor]) -> tuple[tuple[str, Tensor], ...]:
    """Return the tensors of a message, labelled by their names."""
    return tuple(tensors.items())


def label_by_position(tensors: Iterable[Tensor]) -> tuple[tuple[str, Tensor], ...]:
    """Return the tensors of a message, labelled by their positions."""
    return tuple((str(i), tensor) for i, tensor in enumerate(tensors))
