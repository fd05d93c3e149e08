"""Frames between the examiner and the process that runs a submission.

    frame   = header length (u32) | body length (u64) | header (JSON) | body (raw tensors)
    header  = {"id", "op", "meta", "tensors": [[name, dtype, shape], ...]}

Tensors lie in the body one after the other, little-endian and contiguous. There is no pickle and
no other code in a frame. The reader believes nothing: lengths are capped before anything is
allocated, dtypes come from a list, shapes must fill the body exactly.
"""

import functools
import math
import os
import select
import struct
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import msgspec
import torch
from torch import Tensor

LENGTHS = struct.Struct("<IQ")
MAX_HEADER = 4 << 20
SHORT_HEADER = 256 << 10
"""of a reply that is to say little"""
MAX_TENSORS = 4096
"""in one frame that is read; what is kept on disk has more"""
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


class BadFrame(Exception):
    """The other side sent something that is not a frame."""


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
    """bytes of what was read, all of it"""


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(_Header)


def encode(message: Message) -> list[bytes | memoryview]:
    """The parts of a frame, to be written one after the other.

    Raises BadFrame for a tensor whose dtype the wire does not carry.
    """
    given = message.tensors
    described, parts = given.packed if isinstance(given, PackedTensors) else pack_tensors(given)
    header = _ENCODER.encode(_Header(message.id, message.op, dict(message.meta), described))
    lengths = LENGTHS.pack(len(header), sum(len(part) for part in parts))
    return [lengths + header, *parts]


TensorHeaders = list[tuple[str, str, tuple[int, ...]]]


def pack_tensors(tensors: Iterable[tuple[str, Tensor]]) -> tuple[TensorHeaders, list[memoryview]]:
    """What the header says of tensors, and their bytes. Raises BadFrame."""
    described: TensorHeaders = []
    parts: list[memoryview] = []
    for name, tensor in tensors:
        dtype = str(tensor.dtype).removeprefix("torch.")
        if dtype not in DTYPES:
            raise BadFrame(f"a tensor of dtype {dtype} cannot be sent")
        described.append((name, dtype, tuple(tensor.shape)))
        if tensor.numel():
            flat = tensor.detach().contiguous().reshape(-1).view(torch.uint8)
            parts.append(flat.numpy().data.cast("B"))
    return described, parts


class PackedTensors(tuple[tuple[str, Tensor], ...]):
    """Tensors that are sent again and again: packed once. Nobody may write on them."""

    @functools.cached_property
    def packed(self) -> tuple[TensorHeaders, list[memoryview]]:
        described, parts = pack_tensors(self)
        body = b"".join(parts)
        return described, [memoryview(body)] if body else []


def decode(header: bytes, body: bytearray, most: int | None = None) -> Message:
    """Raises BadFrame unless header and body fit together exactly, and hold few enough tensors."""
    try:
        read = _DECODER.decode(header)
    except (msgspec.MsgspecError, RecursionError, UnicodeDecodeError) as error:
        raise BadFrame(f"unreadable header: {error}") from None
    if most is not None and len(read.tensors) > most:
        raise BadFrame(f"a frame of {len(read.tensors)} tensors is over the limit")
    tensors, offset = [], 0
    for name, dtype_name, shape in read.tensors:
        size = _compute_size(dtype_name, shape)
        if offset + size > len(body):
            raise BadFrame("a tensor reaches beyond the body")
        tensors.append(
            (name, _build_tensor(DTYPES[dtype_name], shape, body[offset : offset + size]))
        )
        offset += size
    if offset != len(body):
        raise BadFrame(f"{len(body) - offset} bytes belong to no tensor")
    return Message(read.id, read.op, read.meta, tuple(tensors), len(header) + len(body))


def _compute_size(dtype_name: str, shape: tuple[int, ...]) -> int:
    if dtype_name not in DTYPES:
        raise BadFrame(f"unknown dtype {dtype_name[:40]!r}")
    if len(shape) > MAX_DIMENSIONS or any(not 0 <= n <= MAX_BODY for n in shape):
        raise BadFrame("impossible shape")
    # An empty tensor has strides, too, and torch refuses those that overflow.
    if math.prod(max(n, 1) for n in shape) > MAX_BODY:
        raise BadFrame("impossible shape")
    return math.prod(shape) * DTYPES[dtype_name].itemsize


def _build_tensor(dtype: torch.dtype, shape: tuple[int, ...], data: bytearray) -> Tensor:
    if not data:
        return torch.empty(shape, dtype=dtype)
    if dtype is torch.bool and torch.frombuffer(data, dtype=torch.uint8).max() > 1:
        raise BadFrame("a bool that is neither 0 nor 1")
    # `.data`: a tensor like any other, and no view of one, which autograd treats otherwise.
    return torch.frombuffer(data, dtype=dtype).reshape(shape).data


def write(fd: int, message: Message, deadline: float | None = None) -> None:
    """Send a frame; a deadline asks for a descriptor that does not block.

    Raises TimeoutError, BrokenPipeError, BadFrame.
    """
    waiting = [memoryview(part).cast("B") for part in encode(message)]
    while waiting:
        try:
            sent = os.writev(fd, waiting[:64])
        except BlockingIOError:
            _wait(fd, deadline, writing=True)
            continue
        while waiting and sent >= len(waiting[0]):
            sent -= len(waiting.pop(0))
        if sent:
            waiting[0] = waiting[0][sent:]


def read(
    fd: int,
    deadline: float | None = None,
    max_body: int = MAX_BODY,
    max_header: int = MAX_HEADER,
) -> Message:
    """Receive a frame; a deadline asks for a descriptor that does not block.

    Raises TimeoutError, EOFError, BadFrame.
    """
    header, body = LENGTHS.unpack(_read_exactly(fd, LENGTHS.size, deadline))
    if header > max_header or body > max_body:
        raise BadFrame(f"a frame of {header} + {body} bytes is over the limit")
    said = bytes(_read_exactly(fd, header, deadline))
    return decode(said, _read_exactly(fd, body, deadline), MAX_TENSORS)


def _read_exactly(fd: int, length: int, deadline: float | None) -> bytearray:
    buffer = bytearray(length)
    view, got = memoryview(buffer), 0
    while got < length:
        try:
            count = os.readv(fd, [view[got:]])
        except BlockingIOError:
            _wait(fd, deadline, writing=False)
            continue
        except ConnectionResetError:
            count = 0
        if count == 0:
            raise EOFError
        got += count
    return buffer


def _wait(fd: int, deadline: float | None, *, writing: bool) -> None:
    if deadline is None:
        return
    left = deadline - time.monotonic()
    # poll, unlike select, takes file descriptors of any number.
    poll = select.poll()
    poll.register(fd, select.POLLOUT if writing else select.POLLIN)
    if left <= 0 or not poll.poll(left * 1000):
        raise TimeoutError


def label_by_name(tensors: Mapping[str, Tensor]) -> tuple[tuple[str, Tensor], ...]:
    """Tensors of a mapping, as a message carries them."""
    return tuple(tensors.items())


def label_by_position(tensors: Iterable[Tensor]) -> tuple[tuple[str, Tensor], ...]:
    """Tensors in order, as a message carries them."""
    return tuple((str(i), tensor) for i, tensor in enumerate(tensors))
