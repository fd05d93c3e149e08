"""Scripts on disk: what was written is read, and what cannot be read is as good as not there."""

import os
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.grader.batch import disk_cache
from headcheck.grader.batch.message import BatchPlan
from headcheck.grader.batch.plan import compile_batch_plan, get_batch_plan
from headcheck.properties.cases import case_set

EXERCISE = BY_SLUG["causal_attention"]
PLAN = EXERCISE.plan_cases()
CLAIMS = dict(list(PLAN.items())[:12])
SCRIPT = compile_batch_plan(replace(EXERCISE.contract, name=""), CLAIMS)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "headcheck"


def alike(one: BatchPlan, other: BatchPlan) -> bool:
    return disk_cache._encode_plan(one) == disk_cache._encode_plan(other)


def test_stored_entry_is_returned(folder: Path) -> None:
    disk_cache.store("a", SCRIPT)
    taken = disk_cache.load("a", EXERCISE.properties)
    assert taken is not None
    assert alike(taken, SCRIPT)
    assert taken.queries_by_property == SCRIPT.queries_by_property
    for one, other in zip(taken.batches, SCRIPT.batches, strict=True):
        assert one.object_batches == other.object_batches
        assert one.repeated_queries == other.repeated_queries
        assert torch.equal(one.exact, other.exact)
    assert [path.name for path in folder.iterdir()] == ["a.script"]
    assert folder.stat().st_mode & 0o077 == 0


def test_cases_that_are_on_disk_are_not_selected_again(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = EXERCISE.contract.mappings, 5, "cpu"
    first, second = replace(EXERCISE), replace(EXERCISE)
    made = get_batch_plan(first, *asked)
    monkeypatch.setattr(case_set, "generate_case_set", None)
    taken = get_batch_plan(second, *asked)
    assert taken is not made
    assert second.plan_cases(5) is taken.cases
    assert list(taken.cases.items()) == list(first.plan_cases(5).items())
    assert repr(taken.cases) == repr(first.plan_cases(5))
    with pytest.raises(TypeError):
        second.plan_cases(6)


def test_cache_starts_empty() -> None:
    assert disk_cache.load("a", EXERCISE.properties) is None


@pytest.mark.parametrize(
    "damage",
    [
        *(lambda data, n=n: data[:n] for n in (0, 5, 100, -1)),
        # A single other bit in what the equation answers would prove what does not hold.
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: os.urandom(1000),
    ],
    ids=["empty", "5 bytes", "100 bytes", "cut off", "another bit", "foreign"],
)
def test_a_damaged_file_is_a_miss(folder: Path, damage: Callable[[bytes], bytes]) -> None:
    disk_cache.store("a", SCRIPT)
    path = folder / "a.script"
    path.write_bytes(damage(path.read_bytes()))
    assert disk_cache.load("a", EXERCISE.properties) is None
    assert alike(disk_cache.load_or_make("a", EXERCISE.properties, lambda: SCRIPT), SCRIPT)


@pytest.mark.parametrize("mode", [0o770, 0o707, 0o777])
def test_folder_that_others_can_write_is_not_used(folder: Path, mode: int) -> None:
    disk_cache.store("a", SCRIPT)
    folder.chmod(mode)
    assert disk_cache.load("a", EXERCISE.properties) is None
    disk_cache.store("b", SCRIPT)
    assert [path.name for path in folder.iterdir()] == ["a.script"]


def test_folder_of_somebody_else_is_not_used(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk_cache.store("a", SCRIPT)
    with monkeypatch.context() as patch:
        patch.setattr(os, "geteuid", lambda: folder.stat().st_uid + 1)
        assert disk_cache.load("a", EXERCISE.properties) is None
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    assert disk_cache.load("a", EXERCISE.properties) is None


@pytest.mark.parametrize("meta", [{"exchanges": [{"sent": "x"}]}, {"exchanges": 1}, {}, []])
def test_well_formed_file_of_other_content_is_a_miss(
    folder: Path, monkeypatch: pytest.MonkeyPatch, meta: object
) -> None:
    monkeypatch.setattr(disk_cache, "_read_frame", lambda _: SimpleNamespace(meta=meta, tensors=()))
    disk_cache.store("a", SCRIPT)
    assert disk_cache.load("a", EXERCISE.properties) is None


def test_plan_with_unknown_properties_is_a_miss() -> None:
    disk_cache.store("a", SCRIPT)
    assert disk_cache.load("a", EXERCISE.properties[:3]) is None


def test_unwritable_folder_stores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    disk_cache.store("a", SCRIPT)
    assert disk_cache.load("a", EXERCISE.properties) is None
    made = disk_cache.load_or_make("a", EXERCISE.properties, lambda: SCRIPT)
    assert alike(made, SCRIPT), "without a lock, since none can be made"


def test_most_recently_used_entries_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "MAX_PLANS", 2)
    for age, name in enumerate("abc"):
        disk_cache.store(name, SCRIPT)
        if (folder / f"{name}.script").exists():
            os.utime(folder / f"{name}.script", (age, age))
    disk_cache.load("b", EXERCISE.properties)
    disk_cache.store("d", SCRIPT)
    assert {path.stem for path in folder.iterdir()} == {"b", "d"}


def test_key_depends_on_seed_and_exercise() -> None:
    keys = {disk_cache.compute_key("causal_attention", (), seed, "cpu") for seed in (0, 1)}
    assert len(keys | {disk_cache.compute_key("causal_weights", (), 0, "cpu")}) == 3


def test_cache_size_is_bounded(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_cache.store("a", SCRIPT)
    size = (folder / "a.script").stat().st_size
    os.utime(folder / "a.script", (1, 1))
    monkeypatch.setattr(disk_cache, "MAX_BYTES", 2 * size)
    for age, name in enumerate("bcd", 2):
        disk_cache.store(name, SCRIPT)
        os.utime(folder / f"{name}.script", (age, age))
    assert {path.stem for path in folder.iterdir()} == {"c", "d"}
    monkeypatch.setattr(disk_cache, "MAX_BYTES", 1)
    disk_cache.store("e", SCRIPT)
    assert [path.stem for path in folder.iterdir()] == ["e"], "the newest is of use in any case"


def test_leftovers_of_killed_processes_are_removed_but_not_active_files(folder: Path) -> None:
    folder.mkdir()
    for name in ("old.new", "old.lock", "young.new", "young.lock"):
        (folder / name).touch()
    for name in ("old.new", "old.lock"):
        os.utime(folder / name, (1, 1))
    disk_cache.store("a", SCRIPT)
    assert {path.name for path in folder.iterdir()} == {"a.script", "young.new", "young.lock"}


def test_concurrent_requests_compute_once(folder: Path) -> None:
    begun, others, made = threading.Event(), threading.Event(), []

    def make() -> BatchPlan:
        made.append(1)
        begun.set()
        assert others.wait(60)
        return SCRIPT

    def want(_: int) -> BatchPlan:
        return disk_cache.load_or_make("a", EXERCISE.properties, make)

    # Files are locked by who opened them, so threads stand for processes.
    with ThreadPoolExecutor(3) as threads:
        waiting = threads.map(want, range(3))
        assert begun.wait(60)
        others.set()
        assert all(alike(each, SCRIPT) for each in waiting)
    assert made == [1]
    assert {path.name for path in folder.iterdir()} == {"a.script", "a.lock"}


def test_lock_wait_times_out(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "LOCK_TIMEOUT_S", 0.05)
    with disk_cache._lock_key("a"):  # by somebody who was stopped
        assert alike(disk_cache.load_or_make("a", EXERCISE.properties, lambda: SCRIPT), SCRIPT)


def test_lock_of_a_dead_process_blocks_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "LOCK_TIMEOUT_S", 1e9)
    folder.mkdir()
    (folder / "a.lock").touch()
    assert alike(disk_cache.load_or_make("a", EXERCISE.properties, lambda: SCRIPT), SCRIPT)
