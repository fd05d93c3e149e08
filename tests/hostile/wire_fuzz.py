"""Fuzzing of the wire's decoder: python -m tests.hostile.wire_fuzz [INPUTS [SEED]] [--atheris].

Every input must decode to a message that fits its bytes exactly, or raise BadFrame or EOFError;
in less than a second, and with no allocation above the cap, which a limit on the address space
enforces. Without `--atheris` inputs are mutations of frames, drawn with a seed; with it, atheris
chooses them by coverage of the decoder.
"""

import contextlib
import copy
import importlib
import json
import os
import random
import resource
import signal
import struct
import sys
import tempfile
import time
import weakref
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch

from headcheck.grader.sandbox import wire
from headcheck.grader.sandbox.wire import BadFrame, Message

MAX_BODY = 1 << 20
HEADROOM = 64 << 20
"""address space beyond what is mapped when fuzzing starts: a header and a body at their caps, the
copies that are made of them, and Python's own needs"""
SLOW_S = 1.0
NUMBERS = (
    0,
    1,
    -1,
    2,
    7,
    8,
    1 << 31,
    1 << 32,
    (1 << 63) - 1,
    1 << 63,
    1 << 64,
    1 << 200,
    1.5,
    1e999,
)
ODD: tuple[Any, ...] = (
    None,
    True,
    "",
    "ok",
    "raised",
    "float64",
    "é" * 9,
    [],
    {},
    [[]],
    {"a": []},
    *NUMBERS,
)


@dataclass
class FuzzStatistics:
    """What was seen."""

    inputs: int = 0
    decoded: int = 0
    refused: Counter[str] = field(default_factory=Counter)
    slowest: float = 0.0
    began: float = field(default_factory=time.monotonic)

    def format_table(self) -> str:
        """As lines of text."""
        spent = time.monotonic() - self.began
        most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
        lines = [
            f"{self.inputs} inputs in {spent:.0f} s ({self.inputs / spent:.0f} a second)",
            f"{self.decoded} decoded; at most {most} MiB held",
            f"the slowest took {1000 * self.slowest:.1f} ms of processor time",
            *(f"{count:>9} {reason}" for reason, count in self.refused.most_common()),
        ]
        return "\n".join(lines)


class FuzzTarget:
    """The decoder, fed from a file in memory as it would be from a socket."""

    def __init__(self) -> None:
        self.fd = os.memfd_create("frames")
        weakref.finalize(self, os.close, self.fd)
        self.figures = FuzzStatistics()

    def __call__(self, data: bytes) -> None:
        """Raises what must not be raised."""
        os.ftruncate(self.fd, 0)
        os.pwrite(self.fd, data, 0)
        os.lseek(self.fd, 0, os.SEEK_SET)
        began = time.thread_time()
        try:
            message = wire.read(self.fd, None, MAX_BODY)
        except (BadFrame, EOFError) as error:
            text = str(error).partition(":")[0].partition(" '")[0]
            reason = text.lstrip("0123456789 ") or "ends too early"
            self.figures.refused["over the limit" if "over the limit" in reason else reason] += 1
        else:
            self.figures.decoded += 1
            assert_fits(message, data)
        taken = time.thread_time() - began
        self.figures.inputs += 1
        self.figures.slowest = max(self.figures.slowest, taken)
        assert taken < SLOW_S, f"{taken:.1f} s for {data[:200]!r}"


def assert_fits(message: Message, data: bytes) -> None:
    """The tensors of a message fill the body exactly, and it says the same when sent again."""
    header, body = wire.LENGTHS.unpack(data[: wire.LENGTHS.size])
    tensors = [tensor for _, tensor in message.tensors]
    assert sum(t.numel() * t.itemsize for t in tensors) == body <= MAX_BODY
    assert all(t.dtype in wire.DTYPES.values() and t.dim() <= wire.MAX_DIMENSIONS for t in tensors)
    start, *parts = wire.encode(message)
    whole = bytes(start) + b"".join(bytes(part) for part in parts)
    again = wire.decode(
        whole[wire.LENGTHS.size : len(bytes(start))], bytearray(whole[len(bytes(start)) :])
    )
    assert again.id == message.id and again.op == message.op and again.meta == message.meta
    assert data[wire.LENGTHS.size + header :][:body] == whole[len(bytes(start)) :]


# ------------------------------------------------------------------------------ inputs


def make_frame(header: bytes, body: bytes) -> bytes:
    """A frame of a header and a body, both as they are."""
    return wire.LENGTHS.pack(len(header), len(body)) + header + body


def make_seed_frames() -> list[bytes]:
    """Frames as they are really sent."""
    made = [
        Message(1, "ok", {"handle": 1}),
        Message(2, "raised", {"type": "ValueError", "message": "é ✓", "cell": None, "line": 3}),
        *(Message(3, "ok", {}, (("0", torch.ones(2, 3).to(d)),)) for d in wire.DTYPES.values()),
        Message(
            4, "ok", {"form": "one Tensor"}, (("0", torch.zeros(0, 4)), ("1", torch.rand(2, 2, 2)))
        ),
    ]
    return [b"".join(bytes(part) for part in wire.encode(message)) for message in made]


def mutate_frame(draw: random.Random, known: list[bytes]) -> bytes:
    """A frame with something changed."""
    data = bytearray(draw.choice(known))
    if draw.random() < 0.5:
        return mutate_header(draw, bytes(data))
    for _ in range(draw.choice((1, 1, 2, 8))):
        at = draw.randrange(len(data) + 1)
        match draw.randrange(5):
            case 0:
                data[at : at + 1] = bytes([draw.randrange(256)])
            case 1:
                data[at:at] = draw.randbytes(draw.choice((1, 4, 100)))
            case 2:
                del data[at : at + draw.choice((1, 4, 100))]
            case 3:
                data[:12] = struct.pack("<IQ", draw.getrandbits(32), draw.getrandbits(64))
            case 4:
                other = draw.choice(known)
                data[at:] = other[draw.randrange(len(other)) :]
    return bytes(data)


def mutate_header(draw: random.Random, data: bytes) -> bytes:
    """A frame whose header is well-formed JSON with other values."""
    length, _ = wire.LENGTHS.unpack(data[:12])
    header = json.loads(data[12 : 12 + length])
    body = data[12 + length :]
    for _ in range(draw.choice((1, 2))):
        change_value(draw, header)
    if draw.random() < 0.3:
        body = draw.randbytes(draw.choice((0, 1, 8, 48, 64, 4096)))
    text = json.dumps(header)
    if draw.random() < 0.05:
        text = text.replace("{}", "[" * 5000 + "]" * 5000, 1)
    return make_frame(text.encode(), body)


def change_value(draw: random.Random, value: Any) -> None:
    """Change something somewhere inside a value of JSON."""
    while True:
        keys = list(value) if isinstance(value, dict) else list(range(len(value)))
        if not keys:
            if isinstance(value, list):
                value.append(copy.deepcopy(draw.choice(ODD)))
            return
        key = draw.choice(keys)
        if isinstance(value[key], list | dict) and draw.random() < 0.8:
            value = value[key]
            continue
        match draw.randrange(4):
            case 0 | 1:
                value[key] = copy.deepcopy(draw.choice(ODD))
            case 2:
                del value[key]
            case 3 if isinstance(value, list):
                value *= draw.choice((2, 30))
        return


# --------------------------------------------------------------------------------- runs


def limit_resources() -> None:
    """Make every allocation above the cap fail, and every hang end."""
    pages = int(Path("/proc/self/statm").read_text().split()[0])
    most = pages * resource.getpagesize() + HEADROOM
    resource.setrlimit(resource.RLIMIT_AS, (most, most))
    signal.signal(signal.SIGALRM, lambda *_: (_ for _ in ()).throw(TimeoutError("a hang")))


def fuzz_by_mutation(target: Callable[[bytes], None], inputs: int, seed: int) -> None:
    """So many inputs, the same for the same seed."""
    draw, known = random.Random(seed), make_seed_frames()
    for _ in range(inputs):
        signal.setitimer(signal.ITIMER_REAL, 10)
        target(mutate_frame(draw, known))
    signal.setitimer(signal.ITIMER_REAL, 0)


def fuzz_by_coverage(target: FuzzTarget, inputs: int) -> None:
    """So many inputs, chosen by atheris. It ends the process."""
    atheris = importlib.import_module("atheris")
    folder = Path(tempfile.mkdtemp(prefix="headcheck-frames-"))
    for i, known in enumerate(make_seed_frames()):
        (folder / f"{i}").write_bytes(known)
    for function in (
        wire.decode,
        wire.read,
        wire._count_numbers,
        wire._build_row,
        wire._read_exactly,
    ):
        setattr(wire, function.__name__, atheris.instrument_func(function))

    def one(data: bytes) -> None:
        target(data)
        if target.figures.inputs == inputs:
            print(target.figures.format_table(), flush=True)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        draw = random.Random(seed)
        if draw.random() < 0.5:
            # Otherwise hardly a change would leave the lengths right, and the JSON JSON.
            with contextlib.suppress(ValueError, struct.error, TypeError, RecursionError):
                return mutate_header(draw, data)[:most]
        changed: bytes = atheris.Mutate(data, len(data))
        return changed

    options = [f"-runs={inputs}", "-max_len=4096", "-rss_limit_mb=2048", "-timeout=10", str(folder)]
    atheris.Setup([sys.argv[0], *options], one, custom_mutator=mutate)
    atheris.Fuzz()


def main(arguments: list[str]) -> None:
    """Fuzz and print the figures."""
    numbers = [int(argument) for argument in arguments if argument.isdigit()]
    inputs, seed = [*numbers, *(10**6, 0)[len(numbers) :]]
    torch.set_num_threads(1)
    target = FuzzTarget()
    if "--atheris" in arguments:
        fuzz_by_coverage(target, inputs)
    limit_resources()
    fuzz_by_mutation(target, inputs, seed)
    print(target.figures.format_table())


if __name__ == "__main__":
    main(sys.argv[1:])
