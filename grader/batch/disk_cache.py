"""Scripts that were compiled once are kept on disk: what the equation answers does not change.

A script depends on the sources of the judge, on the versions that compute, on the seed, and on
where a definition keeps its weights; all of that is in the name of its file, so that a file is
never out of date. Files are frames of the wire, data without code, in the cache folder of whoever
runs the grader (`$XDG_CACHE_HOME/headcheck`, else `~/.cache/headcheck`), out of reach of what runs
in the sandbox. A file that cannot be read is made again; where none can be written, none is kept.
The workers of a run share the scripts of its seed here.
"""

import contextlib
import functools
import hashlib
import os
import platform
import struct
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from grader.batch.message import Construction, Exchange, Known, Script
from grader.batch.recording import Key
from grader.sandbox import wire
from grader.sandbox.wire import BadFrame, Message, Ready, positional
from properties.property import Property

ROOMS = ("reference", "properties", "exercises", "grader")
KEPT = 64
"""so many scripts are kept, the ones used last"""
ROOM = 256 << 20
"""so many bytes they may take together: every graded run leaves those of its own seed"""
NEW, LOCK = ".new", ".lock"
"""the ends of what a script is written under, and of what is locked while it is compiled"""
STALE_S = 3600.0
"""after so long nobody is still writing, or compiling"""
PATIENCE_S = 10.0
"""how long one process waits for another that compiles the same script; on one core it takes one"""
POLL_S = 0.02


def shared(key: str, claims: Iterable[Property], make: Callable[[], Script]) -> Script:
    """The script of this key, as it is on disk, or made and put there.

    Of several processes that want the same one at once, one makes it and the others wait.
    """
    claims = tuple(claims)
    script = take(key, claims)
    if script is not None:
        return script
    with _alone(key):
        script = take(key, claims)
        if script is None:
            script = make()
            put(key, script)
    return script


@contextlib.contextmanager
def _alone(key: str) -> Iterator[None]:
    """Be the only process in here for this key, as far as files can be locked on this machine.

    A process that dies gives up its lock; of one that was stopped nobody waits for the end.
    """
    try:
        place = _made_folder() / f"{key}{LOCK}"
        descriptor = os.open(place, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, RuntimeError):
        yield
        return
    try:
        limit = time.monotonic() + PATIENCE_S
        while not _locked(descriptor) and time.monotonic() < limit:
            time.sleep(POLL_S)
        yield
    finally:
        place.unlink(missing_ok=True)
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Whether the file is locked for this process now, or cannot be locked here at all."""
    if sys.platform == "win32":
        return True
    import fcntl

    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return True
    return True


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
        place = _made_folder()
        descriptor, made = tempfile.mkstemp(dir=place, suffix=NEW)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(_encoded(script))
        Path(made).replace(place / f"{key}.script")
        for old in _superfluous(place):
            old.unlink(missing_ok=True)


def _superfluous(place: Path) -> Iterator[Path]:
    """Scripts for which there is no room, and what processes left that were killed."""
    there = [(status.st_mtime, status.st_size, path) for path, status in _files(place)]
    scripts = sorted((row for row in there if row[2].suffix == ".script"), reverse=True)
    taken = 0
    for number, (_, size, path) in enumerate(scripts):
        taken += size
        if number and (number >= KEPT or taken > ROOM):
            yield path
    for changed, _, path in there:
        if path.suffix in (NEW, LOCK) and changed < time.time() - STALE_S:
            yield path


def _files(place: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in place.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process drops some, too
            yield path, path.lstat()


def _made_folder() -> Path:
    """The folder, which nobody else may read. Raises OSError, RuntimeError."""
    place = folder()
    place.mkdir(mode=0o700, parents=True, exist_ok=True)
    return place


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
