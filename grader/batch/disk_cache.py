"""Cache compiled batch plans on disk, since the equation's answers do not change.

A plan depends on the grader's sources, on the versions that compute, on the seed, and on where a
definition keeps its weights. All of that is hashed into the name of its file, so a file is never
out of date. Files are frames of the wire format, data without code, in the cache folder of the user
who runs the grader (`$XDG_CACHE_HOME/headcheck`, else `~/.cache/headcheck`), out of the sandbox's
reach. A plan decides verdicts. So a folder to which others can write, or which belongs to somebody
else, is not used, and each file begins with a digest of its contents. A file that is invalid in any
way is made again. If files cannot be written, plans are not kept on disk. The workers of a run
share the plans for its seed in this cache.
"""

import contextlib
import functools
import hashlib
import os
import platform
import stat
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from pathlib import Path
from typing import Any

import msgspec
import torch
from filelock import FileLock
from torch import Tensor

from headcheck.grader.batch.message import (
    BatchPlan,
    BatchRequest,
    ObjectBatch,
    QueryKey,
    Transcript,
)
from headcheck.grader.location import HEADCHECK
from headcheck.grader.sandbox import wire
from headcheck.grader.sandbox.wire import BadFrame, Message, PackedTensors, label_by_position
from headcheck.properties.property import Property
from headcheck.properties.terms.case import Case

SOURCE_PACKAGES = ("reference", "properties", "exercises", "grader")
MAX_PLANS = 64
"""how many plans are kept: the most recently used ones"""
MAX_BYTES = 1 << 30
"""the most bytes of all plans together: 64 of usual exercises, which take 15 MB each"""
NEW_SUFFIX, LOCK_SUFFIX = ".new", ".lock"
"""the suffixes of a file that is being written, and of a lock during compilation"""
STALE_S = 3600.0
"""the age at which no process is still writing or compiling a file"""
LOCK_TIMEOUT_S = 10.0
"""how long a process waits for another one to compile the same plan; on one core this takes 1 s"""
DIGEST_BYTES = 16


def load_or_make(
    key: str, properties: Iterable[Property], make: Callable[[], BatchPlan]
) -> BatchPlan:
    """Return the plan of this key from disk, or make it and store it there.

    If several processes need the same plan at the same time, one makes it and the others wait.
    """
    properties = tuple(properties)
    plan = load(key, properties)
    if plan is not None:
        return plan
    with _lock_key(key):
        plan = load(key, properties)
        if plan is None:
            plan = make()
            store(key, plan)
    return plan


@contextlib.contextmanager
def _lock_key(key: str) -> Iterator[None]:
    """Hold the lock of this key, if files can be locked on this machine.

    A process that dies releases its lock; waiting for a process that hangs ends after
    `LOCK_TIMEOUT_S`.
    """
    with contextlib.ExitStack() as held:
        with contextlib.suppress(OSError, RuntimeError):
            path = _ensure_folder() / f"{key}{LOCK_SUFFIX}"
            held.enter_context(FileLock(path, LOCK_TIMEOUT_S, mode=0o600))
        yield


def load(key: str, properties: Iterable[Property]) -> BatchPlan | None:
    """Return the plan of this key if it is on disk; its properties are among these."""
    # Whatever is wrong with a file, the plan can be made again.
    with contextlib.suppress(Exception):
        path = _ensure_folder() / f"{key}.script"
        plan = _decode_plan(_read_frame(path), {prop.name: prop for prop in properties})
        path.touch()
        return plan
    return None


def store(key: str, plan: BatchPlan) -> None:
    """Store a plan, and drop the least recently used ones."""
    with contextlib.suppress(OSError, RuntimeError):
        cache_folder = _ensure_folder()
        descriptor, temporary = tempfile.mkstemp(dir=cache_folder, suffix=NEW_SUFFIX)
        with os.fdopen(descriptor, "wb") as file:
            parts = _encode_plan(plan)
            file.writelines([_digest(parts), *parts])
        Path(temporary).replace(cache_folder / f"{key}.script")
        for old in _iter_evictable(cache_folder):
            old.unlink(missing_ok=True)


def _iter_evictable(cache_folder: Path) -> Iterator[Path]:
    """Yield the plans for which there is no space, and files that killed processes left behind."""
    files = [(status.st_mtime, status.st_size, path) for path, status in _iter_files(cache_folder)]
    plans = sorted((row for row in files if row[2].suffix == ".script"), reverse=True)
    used = 0
    for number, (_, size, path) in enumerate(plans):
        used += size
        if number and (number >= MAX_PLANS or used > MAX_BYTES):
            yield path
    for changed, _, path in files:
        if path.suffix in (NEW_SUFFIX, LOCK_SUFFIX) and changed < time.time() - STALE_S:
            yield path


def _iter_files(cache_folder: Path) -> Iterator[tuple[Path, os.stat_result]]:
    for path in cache_folder.iterdir():
        with contextlib.suppress(FileNotFoundError):  # another process may drop it meanwhile
            yield path, path.lstat()


def _ensure_folder() -> Path:
    """Return the folder, created if necessary. Raises OSError if others can write to it."""
    cache_folder = get_folder()
    cache_folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    if sys.platform != "win32":
        status = cache_folder.lstat()
        is_ours = stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()
        if not is_ours or status.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
            raise PermissionError(f"others can write {cache_folder}")
    return cache_folder


def compute_key(*parts: object) -> str:
    """Return a hash of these parts, of the sources, and of the versions that compute."""
    text = repr((hash_sources(), torch.__version__, platform.machine(), parts))
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@functools.cache
def hash_sources() -> str:
    """Return a hash of the code that decides requests and exact answers."""
    digest = hashlib.blake2b(digest_size=16)
    for package in SOURCE_PACKAGES:
        for folder, inner, files in os.walk((HEADCHECK / package).resolve()):
            inner[:] = sorted(set(inner) - {"answers", "__pycache__"})
            for name in sorted(files):
                if name.endswith(".py"):
                    digest.update(Path(folder, name).read_bytes())
    return digest.hexdigest()


def get_folder() -> Path:
    """Return the folder of cached plans. Raises RuntimeError for a user without a home."""
    cache = os.environ.get("XDG_CACHE_HOME") or Path("~/.cache").expanduser()
    return Path(cache) / "headcheck"


ROW_FIELDS = ("exact", "allowed", "owners")
"""the fields of a batch request that are not sent"""


def _encode_plan(plan: BatchPlan) -> list[bytes | memoryview]:
    used = dict.fromkeys(chain.from_iterable(plan.cases.values()))
    numbers = {case: number for number, case in enumerate(used)}
    meta = {
        "cases": msgspec.to_builtins(list(used)),
        "planned": {prop.name: [numbers[c] for c in cases] for prop, cases in plan.cases.items()},
        "exchanges": [_encode_batch(batch) for batch in plan.batches],
        "questions": msgspec.to_builtins(plan.query_keys),
        "asked": {prop.name: sorted(numbers) for prop, numbers in plan.queries_by_property.items()},
        "transcripts": {prop.name: each.requests for prop, each in plan.transcripts.items()},
    }
    tensors = [tensor for batch in plan.batches for tensor in _list_tensors(batch)]
    tensors.extend(tensor for each in plan.transcripts.values() for _, tensor in each.tensors)
    return wire.encode(Message(0, "script", meta, label_by_position(tensors)))


def _encode_batch(batch: BatchRequest) -> dict[str, Any]:
    return {
        "constructions": msgspec.to_builtins(batch.object_batches),
        "dtype": batch.dtype,
        "device": batch.device,
        "twins": batch.repeated_queries,
        "sent": len(batch.tensors),
    }


def _list_tensors(batch: BatchRequest) -> list[Tensor]:
    return [*(t for _, t in batch.tensors), *(getattr(batch, name) for name in ROW_FIELDS)]


def _digest(parts: Iterable[bytes | bytearray | memoryview]) -> bytes:
    digest = hashlib.blake2b(digest_size=DIGEST_BYTES)
    for part in parts:
        digest.update(part)
    return digest.digest()


def _read_frame(path: Path) -> Message:
    """Read a frame without copying it, since some frames have 20 MB."""
    with path.open("rb", buffering=0) as file:
        expected, lengths = file.read(DIGEST_BYTES), file.read(wire.LENGTHS.size)
        header, size = wire.LENGTHS.unpack(lengths)
        if path.stat().st_size != DIGEST_BYTES + wire.LENGTHS.size + header + size:
            raise BadFrame("a file that was not written to its end")
        meta, body = file.read(header), bytearray(size)
        file.readinto(body)
    if _digest((lengths, meta, body)) != expected:
        raise BadFrame("a file that was changed after it was written")
    return wire.decode(meta, body)


def _decode_plan(message: Message, properties: Mapping[str, Property]) -> BatchPlan:
    tensors = (tensor for _, tensor in message.tensors)
    batches = [
        _decode_batch(meta, list(islice(tensors, meta["sent"] + len(ROW_FIELDS))))
        for meta in message.meta["exchanges"]
    ]
    queries_by_property = {
        properties[name]: frozenset(numbers) for name, numbers in message.meta["asked"].items()
    }
    keys = msgspec.convert(message.meta["questions"], tuple[QueryKey, ...])
    transcripts = {
        properties[name]: _decode_transcript(requests, tensors)
        for name, requests in message.meta["transcripts"].items()
    }
    known = msgspec.convert(message.meta["cases"], list[Case])
    cases = {
        properties[name]: tuple(known[number] for number in numbers)
        for name, numbers in message.meta["planned"].items()
    }
    return BatchPlan(tuple(batches), keys, queries_by_property, transcripts, cases)


def _decode_transcript(
    requests: Sequence[Mapping[str, Any]], tensors: Iterator[Tensor]
) -> Transcript:
    count = sum(len(request["tensors"]) for request in requests)
    return Transcript(requests, PackedTensors(label_by_position(islice(tensors, count))))


def _decode_batch(meta: Mapping[str, Any], tensors: list[Tensor]) -> BatchRequest:
    sent, row = tensors[: meta["sent"]], tensors[meta["sent"] :]
    return BatchRequest(
        msgspec.convert(meta["constructions"], tuple[ObjectBatch, ...]),
        PackedTensors(label_by_position(sent)),
        meta["dtype"],
        meta["device"],
        **dict(zip(ROW_FIELDS, row, strict=True)),
        repeated_queries=tuple((one, other) for one, other in meta["twins"]),
    )
