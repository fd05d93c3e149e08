"""Scripts that were compiled once are kept on disk: what the equation answers does not change.

A script depends on the sources of the judge, on the versions that compute, on the seed, and on
where a definition keeps its weights; all of that is in the name of its file, so that a file is
never out of date. Files are frames of the wire, data without code, in the cache folder of whoever
runs the grader (`$XDG_CACHE_HOME/headcheck`, else `~/.cache/headcheck`), out of reach of what runs
in the sandbox. A file that cannot be read is made again; where none can be written, none is kept.
"""

import contextlib
import functools
import hashlib
import os
import platform
import struct
import tempfile
from collections.abc import Iterable, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grader.judging.exchange import Construction, Exchange, Known, Script
from grader.sandbox import wire
from grader.sandbox.wire import BadFrame, Message, Ready, positional
from properties.property import Property
from properties.rehearsal import Key

ROOMS = ("reference", "properties", "exercises", "grader")
KEPT = 64
"""so many scripts are kept, the ones used last"""


def take(key: str, claims: Iterable[Property]) -> Script | None:
    """The script of this key, if it is there; `claims` are those that it may speak of."""
    try:
        path = folder() / f"{key}.script"
        script = _decoded(path.read_bytes(), {claim.name: claim for claim in claims})
        path.touch()
    except (OSError, RuntimeError, BadFrame, struct.error, LookupError, TypeError, ValueError):
        return None
    return script


def put(key: str, script: Script) -> None:
    """Keep a script, and drop those that nobody has used for longest."""
    with contextlib.suppress(OSError, RuntimeError):
        place = folder()
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, made = tempfile.mkstemp(dir=place)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(_encoded(script))
        Path(made).replace(place / f"{key}.script")
        there = sorted(place.glob("*.script"), key=lambda path: path.stat().st_mtime)
        for old in there[:-KEPT]:
            old.unlink()


def key_of(*parts: object) -> str:
    """The name of what depends on these parts, on the judge and on what computes."""
    told = repr((sources(), torch.__version__, platform.machine(), parts))
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


@functools.cache
def sources() -> str:
    """A digest of the code that decides what is asked, and what must come back."""
    root = Path(__file__).resolve().parents[2]
    found = hashlib.blake2b(digest_size=16)
    for room in ROOMS:
        for path in sorted((root / room).rglob("*.py")):
            if "answers" not in path.parts:
                found.update(path.read_bytes())
    return found.hexdigest()


def folder() -> Path:
    """Where scripts are kept. Raises RuntimeError for a user who has no home."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache) / "headcheck"


ROW = ("exact", "allowed", "allowed_float32", "owners")
"""what an exchange holds besides what it sends"""


def _encoded(script: Script) -> list[bytes | memoryview]:
    meta = {
        "exchanges": [_described(exchange) for exchange in script.exchanges],
        "questions": [(*_name(k.key), k.shapes, k.alone) for k in script.questions],
        "asked": {claim.name: sorted(numbers) for claim, numbers in script.asked.items()},
    }
    tensors = [tensor for exchange in script.exchanges for tensor in _tensors(exchange)]
    return wire.encode(Message(0, "script", meta, positional(tensors)))


def _name(key: Key) -> tuple[str, int | None]:
    content, seed = key
    return content.hex(), seed


def _described(exchange: Exchange) -> dict[str, Any]:
    return {
        "constructions": [(list(c.requests), c.shapes) for c in exchange.constructions],
        "dtype": exchange.dtype,
        "device": exchange.device,
        "twins": exchange.twins,
        "sent": len(exchange.tensors),
    }


def _tensors(exchange: Exchange) -> list[Tensor]:
    return [*(t for _, t in exchange.tensors), *(getattr(exchange, name) for name in ROW)]


def _decoded(data: bytes, claims: Mapping[str, Property]) -> Script:
    header, body = wire.LENGTHS.unpack(data[: wire.LENGTHS.size])
    rest = data[wire.LENGTHS.size :]
    if len(rest) != header + body:
        raise BadFrame("a file that was not written to its end")
    message = wire.decode(rest[:header], bytearray(rest[header:]))
    waiting = (tensor for _, tensor in message.tensors)
    exchanges = [
        _exchange(told, list(islice(waiting, told["sent"] + len(ROW))))
        for told in message.meta["exchanges"]
    ]
    asked = {claims[name]: frozenset(those) for name, those in message.meta["asked"].items()}
    questions = (
        Known((bytes.fromhex(content), seed), tuple(map(tuple, shapes)), alone)
        for content, seed, shapes, alone in message.meta["questions"]
    )
    return Script(tuple(exchanges), tuple(questions), asked)


def _exchange(told: Mapping[str, Any], tensors: list[Tensor]) -> Exchange:
    sent, row = tensors[: told["sent"]], tensors[told["sent"] :]
    return Exchange(
        tuple(
            Construction(requests, tuple(map(tuple, shapes)))
            for requests, shapes in told["constructions"]
        ),
        Ready(positional(sent)),
        told["dtype"],
        told["device"],
        **dict(zip(ROW, row, strict=True)),
        twins=tuple((one, other) for one, other in told["twins"]),
    )
