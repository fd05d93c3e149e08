"""The wire: what is sent arrives, and whatever is no frame is refused before it costs anything."""

import json
import math
import os
import socket
import struct
import threading
import time
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from hypothesis import example, given, settings
from hypothesis import strategies as st
from torch import Tensor

from headcheck.grader.sandbox import wire
from headcheck.grader.sandbox.wire import (
    DTYPES,
    BadFrame,
    Message,
    decode,
    encode,
    label_by_name,
    label_by_position,
)

SMALL_SHAPES = st.lists(st.integers(0, 4), max_size=wire.MAX_DIMENSIONS).map(tuple)
WORDS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
PLAIN = st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | WORDS
METAS = st.dictionaries(
    WORDS, st.recursive(PLAIN, lambda p: st.lists(p) | st.dictionaries(WORDS, p))
)


Ends = tuple[socket.socket, socket.socket]
"""two ends of a socket pair, the first of which never blocks, as the grader's"""


@pytest.fixture
def ends() -> Iterator[Ends]:
    ours, theirs = socket.socketpair()
    ours.setblocking(False)
    with ours, theirs:
        yield ours, theirs


def soon(seconds: float = 10) -> wire.WaitMore:
    """Wait so many seconds in all."""
    deadline = time.monotonic() + seconds

    def wait_more() -> float:
        left = deadline - time.monotonic()
        if left <= 0:
            raise TimeoutError
        return left

    return wait_more


def whole(message: Message) -> bytes:
    return b"".join(encode(message))


def reread(message: Message) -> Message:
    data = whole(message)
    header, body = wire.LENGTHS.unpack(data[: wire.LENGTHS.size])
    rest = data[wire.LENGTHS.size :]
    assert len(rest) == header + body
    return decode(rest[:header], bytearray(rest[header:]))


def some_numbers(dtype: torch.dtype, shape: tuple[int, ...], seed: int) -> Tensor:
    """Numbers of every bit pattern that the dtype has, NaN and infinity included."""
    count = math.prod(shape)
    generator = torch.Generator().manual_seed(seed)
    if dtype is torch.bool:
        return torch.randint(2, shape, generator=generator).bool()
    size = (count * dtype.itemsize,)
    data = torch.randint(256, size, generator=generator, dtype=torch.uint8)
    return data.view(dtype).reshape(shape) if count else torch.empty(shape, dtype=dtype)


def same_bits(a: Tensor, b: Tensor) -> bool:
    if a.dtype != b.dtype or a.shape != b.shape:
        return False
    flat = [t.contiguous().reshape(-1).view(torch.uint8) for t in (a, b) if t.numel()]
    return not flat or torch.equal(*flat)


# ------------------------------------------------------------------------- round trips


@given(st.sampled_from(list(DTYPES.values())), SMALL_SHAPES, st.integers(0, 2**32))
def test_a_tensor_arrives_bit_for_bit(dtype: torch.dtype, shape: tuple[int, ...], s: int) -> None:
    sent = some_numbers(dtype, shape, s)
    [(name, got)] = reread(Message(1, "ok", {}, (("x", sent),))).tensors
    assert name == "x"
    assert same_bits(sent, got)


@given(st.integers(0, 2**63 - 1), WORDS, METAS)
def test_id_operation_and_meta_arrive(number: int, op: str, meta: dict[str, Any]) -> None:
    got = reread(Message(number, op, meta))
    assert (got.id, got.op, got.meta, got.tensors) == (number, op, meta, ())


@given(st.lists(st.tuples(WORDS, SMALL_SHAPES, st.sampled_from(list(DTYPES.values()))), max_size=5))
def test_several_tensors_keep_their_order_and_names(
    wanted: list[tuple[str, tuple[int, ...], torch.dtype]],
) -> None:
    sent = tuple((n, some_numbers(d, s, i)) for i, (n, s, d) in enumerate(wanted))
    got = reread(Message(1, "ok", {}, sent)).tensors
    assert [name for name, _ in got] == [name for name, _ in sent]
    assert all(same_bits(a, b) for (_, a), (_, b) in zip(sent, got, strict=True))


@pytest.mark.parametrize(
    "tensor",
    [
        torch.arange(24.0).reshape(2, 3, 4).transpose(0, 2),
        torch.arange(24.0)[::5],
        torch.arange(24.0)[7:9],
        torch.arange(4.0, dtype=torch.float64)[1:3:2],
        torch.arange(4.0).view(2, 2)[1:, 1:],
        torch.arange(3.0).expand(4, 3),
        torch.arange(3.0).flip(0),
        torch.tensor(2.5),
        torch.empty(0),
        torch.empty(3, 0, 2, dtype=torch.bool),
        torch.ones(1, 1, 1, 1, 1, 1, 1, 1),
        torch.arange(4.0, requires_grad=True),
        torch.nn.Parameter(torch.arange(4.0)),
        torch.arange(24.0).reshape(8, 3)[5:6, 2],
        torch.tensor([1 + 2j]).conj().imag,
    ],
    ids=lambda tensor: f"shape {list(tensor.shape)} stride {list(tensor.stride())}",
)
def test_layouts_do_not_matter(tensor: Tensor) -> None:
    [(_, got)] = reread(Message(1, "ok", {}, (("x", tensor),))).tensors
    assert torch.equal(got, tensor)
    assert got.is_contiguous()
    assert not got.requires_grad


def test_received_tensors_are_writable() -> None:
    [(_, got)] = reread(Message(1, "ok", {}, (("x", torch.zeros(2)),))).tensors
    got += 1
    assert got.tolist() == [1, 1]


def test_received_tensors_share_no_memory() -> None:
    (_, a), (_, b) = reread(Message(1, "ok", {}, label_by_position([torch.zeros(2)] * 2))).tensors
    a += 1
    assert b.tolist() == [0, 0]


@pytest.mark.parametrize("dtype", [torch.complex64, torch.int16, torch.int8])
def test_other_dtypes_are_not_sent(dtype: torch.dtype) -> None:
    with pytest.raises(BadFrame, match=r"a tensor of dtype .* cannot be sent"):
        encode(Message(1, "ok", {}, (("x", torch.ones(1, dtype=dtype)),)))


def test_names_and_places_as_a_message_carries_them() -> None:
    x = torch.ones(1)
    assert [name for name, _ in label_by_name({"a": x, "b": x})] == ["a", "b"]
    assert [name for name, _ in label_by_position([x, x])] == ["0", "1"]


# ------------------------------------------------------------------- what is no frame


def header(**changes: Any) -> bytes:
    return json.dumps({"id": 1, "op": "ok", **changes}).encode()


def tensor(dtype: Any = "float32", shape: Any = (2,), name: Any = "x") -> list[Any]:
    return [name, dtype, shape]


@pytest.mark.parametrize(
    ("head", "body", "message"),
    [
        (b"", b"", "unreadable header"),
        (b"null", b"", "unreadable header"),
        (b"[]", b"", "unreadable header"),
        (b"{}", b"", "missing required field `id`"),
        (b'{"id": 1', b"", "unreadable header"),
        (header() + b"!", b"", "trailing"),
        (b"\x80\x04N.", b"", "unreadable header"),
        (b'{"id": 1, "op": "\xff"}', b"", "unreadable header"),
        (b'{"id": 1, "op": "\\ud800"}', b"", "unreadable header"),
        (b'{"id": 1, "op": "ok", "meta": {"a": NaN}}', b"", "unreadable header"),
        (b'{"id": 1, "op": "ok", "meta": {"a": 1' + 5000 * b"0" + b"}}", b"", "unreadable header"),
        (b'{"id": 1, "op": "ok", "meta": ' + 90_000 * b'{"a":', b"", "unreadable header"),
        (b'{"id": 1, "op": "ok", "meta": {"a": ' + 90_000 * b"[", b"", "unreadable header"),
        (header(id="1"), b"", "Expected `int`"),
        (header(id=True), b"", "Expected `int`"),
        (header(id=1.5), b"", "Expected `int`"),
        (header(op=1), b"", "Expected `str`"),
        (header(meta=[]), b"", "Expected `object`"),
        (header(tensors={}), b"", "Expected `array`"),
        (header(tensors=[["x", "float32"]]), b"", "length 3"),
        (header(tensors=[tensor(name=1)]), 8 * b"0", "Expected `str`"),
        (header(tensors=[tensor(dtype=1)]), 8 * b"0", "Expected `str`"),
        (header(tensors=[tensor(shape=2)]), 8 * b"0", "Expected `array`"),
        (header(tensors=[tensor(shape=[2.0])]), 8 * b"0", "Expected `int`"),
        (header(tensors=[tensor(shape=["2"])]), 8 * b"0", "Expected `int`"),
        (header(tensors=[tensor(dtype="complex64")]), 16 * b"0", "unknown dtype 'complex64'"),
        (header(tensors=[tensor(dtype="torch.float32")]), 8 * b"0", "unknown dtype"),
        (header(tensors=[tensor(dtype="Tensor")]), 8 * b"0", "unknown dtype"),
        (header(tensors=[tensor(dtype=9000 * "f")]), b"", "unknown dtype"),
        (header(tensors=[tensor(shape=[-2])]), 8 * b"0", "impossible shape"),
        (header(tensors=[tensor(shape=[-1, -2])]), 8 * b"0", "impossible shape"),
        (header(tensors=[tensor(shape=[2**40])]), 8 * b"0", "impossible shape"),
        (header(tensors=[tensor(shape=[2**200])]), 8 * b"0", "impossible shape"),
        (header(tensors=[tensor(shape=[1] * 9)]), 4 * b"0", "impossible shape"),
        (header(tensors=[tensor(shape=[2**63] * 100_000)]), 4 * b"0", "impossible shape"),
        (header(tensors=[tensor(shape=[0, *[2**29] * 7])]), b"", "impossible shape"),
        (header(tensors=[tensor(shape=[2**29] * 8)]), 8 * b"0", "impossible shape"),
        (header(tensors=[tensor()]), 7 * b"0", "beyond the body"),
        (header(tensors=[tensor()]), b"", "beyond the body"),
        (header(tensors=[tensor(), tensor()]), 12 * b"0", "beyond the body"),
        (header(tensors=[tensor()]), 9 * b"0", "1 bytes belong to no tensor"),
        (header(), b"0", "1 bytes belong to no tensor"),
        (header(tensors=[tensor(shape=[0])]), b"0", "1 bytes belong to no tensor"),
        (header(tensors=[tensor("bool")]), b"\x01\x02", "neither 0 nor 1"),
        (header(tensors=[tensor("bool")]), b"\xff\x00", "neither 0 nor 1"),
    ],
)
def test_invalid_frame_is_refused(head: bytes, body: bytes, message: str) -> None:
    with pytest.raises(BadFrame, match=message) as caught:
        decode(head, bytearray(body))
    assert len(str(caught.value)) < 300


@settings(max_examples=1500)
@given(st.binary(max_size=200), st.binary(max_size=40))
@example(b'{"id":1,"op":"ok","tensors":[["x","bool",[1]]]}', b"\x02")
def test_random_bytes_are_refused_or_decoded(head: bytes, body: bytes) -> None:
    decoded_or_refused(head, body)


DIMENSIONS = st.integers(-2, 5) | st.sampled_from([2**29, 2**31, 2**63, 2**64])
HEADERS = st.fixed_dictionaries(
    {"id": st.integers() | PLAIN, "op": WORDS | PLAIN},
    optional={
        "meta": METAS | PLAIN,
        "tensors": st.lists(
            st.tuples(
                WORDS | PLAIN,
                st.sampled_from([*DTYPES, "complex64", "object"]) | PLAIN,
                st.lists(DIMENSIONS, max_size=9) | PLAIN,
            ),
            max_size=3,
        ),
        "extra": PLAIN,
    },
)


@settings(max_examples=500)
@given(HEADERS, st.binary(max_size=64))
def test_headers_of_any_content_are_refused_or_read(head: dict[str, Any], body: bytes) -> None:
    decoded_or_refused(json.dumps(head).encode(), body)


@settings(max_examples=500)
@given(st.data())
def test_a_frame_with_damaged_bytes_is_refused_or_read(data: st.DataObject) -> None:
    sent = Message(7, "ok", {"a": [1, "b"]}, (("x", torch.ones(2, 2)), ("m", torch.ones(3) > 0)))
    frame = bytearray(whole(sent))
    size = wire.LENGTHS.size
    length, _ = wire.LENGTHS.unpack(frame[:size])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(size, len(frame) - 1))
        frame[place] = data.draw(st.integers(0, 255))
    decoded_or_refused(bytes(frame[size : size + length]), bytes(frame[size + length :]))


def decoded_or_refused(head: bytes, body: bytes) -> None:
    """Any exception but BadFrame would end the grader, and so would a tensor without end."""
    try:
        message = decode(head, bytearray(body))
    except BadFrame:
        return
    assert sum(t.numel() * t.element_size() for _, t in message.tensors) == len(body)
    assert all(t.dtype in DTYPES.values() for _, t in message.tensors)


def test_many_flags_are_checked_quickly() -> None:
    size = 32 << 20
    head = header(tensors=[tensor("bool", [size])])
    began = time.process_time()
    decode(head, bytearray(size))
    assert time.process_time() - began < 0.5


# ---------------------------------------------------------------------------- sockets


def test_a_frame_crosses_a_socket(ends: Ends) -> None:
    ours, theirs = ends
    sent = Message(3, "forward", {"a": 1}, (("x", torch.arange(6.0)),))
    wire.write(theirs.fileno(), sent)
    got = wire.read(ours.fileno(), soon())
    assert (got.id, got.op, got.meta) == (3, "forward", {"a": 1})
    assert torch.equal(got.tensors[0][1], torch.arange(6.0))


def test_a_frame_larger_than_any_buffer_crosses_in_pieces(ends: Ends) -> None:
    ours, theirs = ends
    sent = Message(1, "ok", {}, label_by_position([torch.rand(300_000), *[torch.rand(3)] * 200]))
    writer = threading.Thread(target=wire.write, args=(theirs.fileno(), sent))
    writer.start()
    got = wire.read(ours.fileno(), soon())
    writer.join()
    pairs = zip(sent.tensors, got.tensors, strict=True)
    assert all(torch.equal(a, b) for (_, a), (_, b) in pairs)


def test_two_frames_in_a_row_stay_apart(ends: Ends) -> None:
    ours, theirs = ends
    theirs.sendall(whole(Message(1, "ok")) + whole(Message(2, "raised")))
    assert wire.read(ours.fileno(), soon()).id == 1
    assert wire.read(ours.fileno(), soon()).op == "raised"


@pytest.mark.parametrize(
    "lengths",
    [(wire.MAX_HEADER + 1, 0), (2**32 - 1, 0), (20, wire.MAX_BODY + 1), (20, 2**64 - 1)],
)
def test_lengths_over_the_limit_cost_no_memory(ends: Ends, lengths: tuple[int, int]) -> None:
    ours, theirs = ends
    theirs.sendall(struct.pack("<IQ", *lengths))
    tracemalloc.start()
    try:
        with pytest.raises(BadFrame, match="over the limit"):
            wire.read(ours.fileno(), soon())
        assert tracemalloc.get_traced_memory()[1] < 1 << 20
    finally:
        tracemalloc.stop()


def test_a_frame_of_very_many_tensors_is_refused(ends: Ends) -> None:
    ours, theirs = ends
    empty = torch.empty(0)
    for count in (wire.MAX_TENSORS, wire.MAX_TENSORS + 1):
        parts = wire.encode(Message(1, "ok", {}, label_by_position([empty] * count)))
        writing = threading.Thread(target=theirs.sendall, args=(b"".join(parts),))
        writing.start()
        if count == wire.MAX_TENSORS:
            assert len(wire.read(ours.fileno(), soon()).tensors) == count
        else:
            with pytest.raises(BadFrame, match="a frame of 4097 tensors is over the limit"):
                wire.read(ours.fileno(), soon())
        writing.join()


def test_overlong_short_reply_is_refused_by_its_length(ends: Ends) -> None:
    ours, theirs = ends
    theirs.sendall(struct.pack("<IQ", wire.SHORT_HEADER + 1, 0))
    with pytest.raises(BadFrame, match=r"a frame of 262145 \+ 0 bytes is over the limit"):
        wire.read(ours.fileno(), soon(), max_header=wire.SHORT_HEADER)


def test_the_caller_can_set_a_lower_limit(ends: Ends) -> None:
    ours, theirs = ends
    theirs.sendall(whole(Message(1, "ok", {}, (("x", torch.ones(100)),))))
    with pytest.raises(BadFrame, match=r"\+ 400 bytes is over the limit"):
        wire.read(ours.fileno(), soon(), max_body=399)


@pytest.mark.parametrize("given_bytes", [0, 5, 12, 20], ids=lambda n: f"{n} bytes")
def test_silence_ends_at_the_deadline(ends: Ends, given_bytes: int) -> None:
    ours, theirs = ends
    theirs.sendall(whole(Message(1, "ok"))[:given_bytes])
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        wire.read(ours.fileno(), soon(0.1))
    assert time.monotonic() - began >= 0.1


def test_a_deadline_is_for_the_whole_frame(ends: Ends) -> None:
    """Whoever sends a byte now and then gains no time by it."""
    ours, theirs = ends
    stopped = threading.Event()

    def trickle() -> None:
        for byte in whole(Message(1, "ok", {"a": 50 * "a"})):
            if stopped.wait(0.02):
                return
            theirs.send(bytes([byte]))

    sender = threading.Thread(target=trickle)
    sender.start()
    with pytest.raises(TimeoutError):
        wire.read(ours.fileno(), soon(0.2))
    stopped.set()
    sender.join()


def test_peer_that_never_reads_is_not_waited_for(ends: Ends) -> None:
    ours, _ = ends
    with pytest.raises(TimeoutError):
        wire.write(
            ours.fileno(),
            Message(1, "forward", {}, (("x", torch.ones(1 << 20)),)),
            soon(0.1),
        )


@pytest.mark.parametrize("given_bytes", [0, 5, 12, 20], ids=lambda n: f"{n} bytes")
def test_eof_inside_a_frame_is_eof(ends: Ends, given_bytes: int) -> None:
    ours, theirs = ends
    theirs.sendall(whole(Message(1, "ok"))[:given_bytes])
    theirs.close()
    with pytest.raises(EOFError):
        wire.read(ours.fileno(), soon())


def test_writing_to_a_closed_peer_raises_an_os_error(ends: Ends) -> None:
    ours, theirs = ends
    theirs.close()
    with pytest.raises(OSError, match=os.strerror(32)):
        wire.write(ours.fileno(), Message(1, "ok"), soon())
