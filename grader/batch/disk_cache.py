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

from grader.batch.message import BatchPlan, BatchRequest, ObjectBatch, QueryKey
from grader.batch.recording import QueryId
from grader.sandbox import wire
from grader.sandbox.wire import BadFrame, Message, PackedTensors, label_by_position
from properties.property import Property

SOURCE_PACKAGES = ("reference", "properties", "exercises", "grader")
MAX_PLANS = 64
"""so many scripts are kept, the ones used last"""
MAX_BYTES = 256 << 20
"""so many bytes they may take together: every graded run leaves those of its own seed"""
NEW_SUFFIX, LOCK_SUFFIX = ".new", ".lock"
"""the ends of what a script is written under, and of what is locked while it is compiled"""
STALE_S = 3600.0
"""after so long nobody is still writing, or compiling"""
LOCK_TIMEOUT_S = 10.0
"""how long one process waits for another that compiles the same script; on one core it takes one"""
POLL_INTERVAL_S = 0.02


def load_or_make(key: str, claims: Iterable[Property], make: Callable[[], BatchPlan]) -> BatchPlan:
    """The script of this key, as it is on disk, or made and put there.

    Of several processes that want the same one at once, one makes it and the others wait.
    """
    claims = tuple(claims)
    plan = load(key, claims)
    if plan is not None:
        return plan
    with _lock_key(key):
        plan = load(key, claims)
        if plan is None:
            plan = make()
            store(key, plan)
    return plan


@contextlib.contextmanager
def _lock_key(key: str) -> Iterator[None]:
    """Be the only process in here for this key, as far as files can be locked on this machine.

    A process that dies gives up its lock; of one that was stopped nobody waits for the end.
    """
    try:
        cache_folder = _ensure_folder() / f"{key}{LOCK_SUFFIX}"
        descriptor = os.open(cache_folder, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except (OSError, RuntimeError):
        yield
        return
    try:
        limit = time.monotonic() + LOCK_TIMEOUT_S
        while not _try_lock(descriptor) and time.monotonic() < limit:
            time.sleep(POLL_INTERVAL_S)
        yield
    finally:
        cache_folder.unlink(missing_ok=True)
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
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


def load(key: str, claims: Iterable[Property]) -> BatchPlan | None:
    """The script of this key, if it is there; `claims` are those that it may speak of."""
    try:
        path = get_folder() / f"{key}.script"
        plan = _decode_plan(path.read_bytes(), {claim.name: claim for claim in claims})
        path.touch()
    except (OSError, RuntimeError, BadFrame, struct.error, LookupError, TypeError, ValueError):
        return None
    return plan


def store(key: str, plan: BatchPlan) -> None:
    """Keep a script, and drop those that nobody has used for longest."""
    with contextlib.suppress(OSError, RuntimeError):
        cache_folder = _ensure_folder()
        descriptor, made = tempfile.mkstemp(dir=cache_folder, suffix=NEW_SUFFIX)
        with os.fdopen(descriptor, "wb") as file:
            file.writelines(_encode_plan(plan))
        Path(made).replace(cache_folder / f"{key}.script")
        for old in _iter_evictable(cache_folder):
            old.unlink(missing_ok=True)


def _iter_evictable(cache_folder: Path) -> Iterator[Path]:
    """Scripts for which there is no room, and what processes left that were killed."""
    there = [(status.st_mtime, status.st_size, path) for path, status in _iter_files(cache_folder)]
    scripts = sorted((row for row in there if row[2].suffix == ".script"), reverse=True)
    taken = 0
    for number, (_, size, path) in enumerate(scripts):
        taken += size
        if number and (number >= MAX_PLANS or taken > MAX_BYTES):
            yield path
    for changed, _, path in there:
        if path.suffix in (NEW_SUFFIX, LOCK_SUFFIX) and changed < time.time() - STALE_S:
            yield path


def _iter_files(cache_folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in cache_folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process drops some, too
            yield path, path.lstat()


def _ensure_folder() -> Path:
    """The folder, which nobody else may read. Raises OSError, RuntimeError."""
    cache_folder = get_folder()
    cache_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return cache_folder


def compute_key(*parts: object) -> str:
    """The name of what depends on these parts, on the judge and on what computes."""
    told = repr((hash_sources(), torch.__version__, platform.machine(), parts))
    return hashlib.blake2b(told.encode(), digest_size=16).hexdigest()


@functools.cache
def hash_sources() -> str:
    """A digest of the code that decides what is asked, and what must come back."""
    root = Path(__file__).resolve().parents[2]
    found = hashlib.blake2b(digest_size=16)
    for room in SOURCE_PACKAGES:
        for path in sorted((root / room).rglob("*.py")):
            if "answers" not in path.parts:
                found.update(path.read_bytes())
    return found.hexdigest()


def get_folder() -> Path:
    """Where scripts are kept. Raises RuntimeError for a user who has no home."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache) / "headcheck"


ROW_FIELDS = ("exact", "allowed", "allowed_float32", "owners")
"""what an exchange holds besides what it sends"""


def _encode_plan(plan: BatchPlan) -> list[bytes | memoryview]:
    meta = {
        "exchanges": [_encode_batch(batch) for batch in plan.batches],
        "questions": [(*_encode_key(k.key), k.shapes, k.unstacked) for k in plan.query_keys],
        "asked": {
            claim.name: sorted(numbers) for claim, numbers in plan.queries_by_property.items()
        },
    }
    tensors = [tensor for batch in plan.batches for tensor in _list_tensors(batch)]
    return wire.encode(Message(0, "script", meta, label_by_position(tensors)))


def _encode_key(key: QueryId) -> tuple[str, int | None]:
    content, seed = key
    return content.hex(), seed


def _encode_batch(batch: BatchRequest) -> dict[str, Any]:
    return {
        "constructions": [(list(c.requests), c.shapes) for c in batch.object_batches],
        "dtype": batch.dtype,
        "device": batch.device,
        "twins": batch.repeated_queries,
        "sent": len(batch.tensors),
    }


def _list_tensors(batch: BatchRequest) -> list[Tensor]:
    return [*(t for _, t in batch.tensors), *(getattr(batch, name) for name in ROW_FIELDS)]


def _decode_plan(data: bytes, claims: Mapping[str, Property]) -> BatchPlan:
    header, body = wire.LENGTHS.unpack(data[: wire.LENGTHS.size])
    rest = data[wire.LENGTHS.size :]
    if len(rest) != header + body:
        raise BadFrame("a file that was not written to its end")
    message = wire.decode(rest[:header], bytearray(rest[header:]))
    waiting = (tensor for _, tensor in message.tensors)
    exchanges = [
        _decode_batch(told, list(islice(waiting, told["sent"] + len(ROW_FIELDS))))
        for told in message.meta["exchanges"]
    ]
    asked = {claims[name]: frozenset(those) for name, those in message.meta["asked"].items()}
    questions = (
        QueryKey((bytes.fromhex(content), seed), tuple(map(tuple, shapes)), alone)
        for content, seed, shapes, alone in message.meta["questions"]
    )
    return BatchPlan(tuple(exchanges), tuple(questions), asked)


def _decode_batch(told: Mapping[str, Any], tensors: list[Tensor]) -> BatchRequest:
    sent, row = tensors[: told["sent"]], tensors[told["sent"] :]
    return BatchRequest(
        tuple(
            ObjectBatch(requests, tuple(map(tuple, shapes)))
            for requests, shapes in told["constructions"]
        ),
        PackedTensors(label_by_position(sent)),
        told["dtype"],
        told["device"],
        **dict(zip(ROW_FIELDS, row, strict=True)),
        repeated_queries=tuple((one, other) for one, other in told["twins"]),
    )
