"""Scripts on disk: what was written is read, and what cannot be read is as good as not there."""

import os
import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from exercises import BY_SLUG
from grader.batch import disk_cache
from grader.batch.message import Script
from grader.batch.plan import compiled

EXERCISE = BY_SLUG["causal_attention"]
PLAN = EXERCISE.plan()
CLAIMS = dict(list(PLAN.items())[:12])
SCRIPT = compiled(replace(EXERCISE.contract, name=""), CLAIMS)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "headcheck"


def alike(one: Script, other: Script) -> bool:
    return disk_cache._encoded(one) == disk_cache._encoded(other)


def test_what_was_put_is_taken(folder: Path) -> None:
    disk_cache.put("a", SCRIPT)
    taken = disk_cache.take("a", EXERCISE.properties)
    assert taken is not None
    assert alike(taken, SCRIPT)
    assert taken.asked == SCRIPT.asked
    for one, other in zip(taken.exchanges, SCRIPT.exchanges, strict=True):
        assert one.constructions == other.constructions
        assert one.twins == other.twins
        assert torch.equal(one.exact, other.exact)
    assert [path.name for path in folder.iterdir()] == ["a.script"]
    assert folder.stat().st_mode & 0o077 == 0


def test_nothing_is_there_at_first() -> None:
    assert disk_cache.take("a", EXERCISE.properties) is None


@pytest.mark.parametrize("length", [0, 5, 100, -1])
def test_a_file_that_ends_early_is_none(folder: Path, length: int) -> None:
    disk_cache.put("a", SCRIPT)
    path = folder / "a.script"
    path.write_bytes(path.read_bytes()[:length])
    assert disk_cache.take("a", EXERCISE.properties) is None


def test_a_file_of_something_else_is_none(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.script").write_bytes(os.urandom(1000))
    assert disk_cache.take("a", EXERCISE.properties) is None


def test_a_script_of_unknown_claims_is_none() -> None:
    disk_cache.put("a", SCRIPT)
    assert disk_cache.take("a", EXERCISE.properties[:3]) is None


def test_where_nothing_can_be_written_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    disk_cache.put("a", SCRIPT)
    assert disk_cache.take("a", EXERCISE.properties) is None


def test_the_ones_used_last_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "KEPT", 2)
    for age, name in enumerate("abc"):
        disk_cache.put(name, SCRIPT)
        if (folder / f"{name}.script").exists():
            os.utime(folder / f"{name}.script", (age, age))
    disk_cache.take("b", EXERCISE.properties)
    disk_cache.put("d", SCRIPT)
    assert {path.stem for path in folder.iterdir()} == {"b", "d"}


def test_the_key_tells_seeds_and_places_apart() -> None:
    keys = {disk_cache.key_of("causal_attention", (), seed, "cpu") for seed in (0, 1)}
    assert len(keys | {disk_cache.key_of("causal_weights", (), 0, "cpu")}) == 3


def test_there_is_a_bound_on_their_bytes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk_cache.put("a", SCRIPT)
    size = (folder / "a.script").stat().st_size
    os.utime(folder / "a.script", (1, 1))
    monkeypatch.setattr(disk_cache, "ROOM", 2 * size)
    for age, name in enumerate("bcd", 2):
        disk_cache.put(name, SCRIPT)
        os.utime(folder / f"{name}.script", (age, age))
    assert {path.stem for path in folder.iterdir()} == {"c", "d"}
    monkeypatch.setattr(disk_cache, "ROOM", 1)
    disk_cache.put("e", SCRIPT)
    assert [path.stem for path in folder.iterdir()] == ["e"], "the newest is of use in any case"


def test_what_killed_processes_left_is_dropped_and_what_others_write_is_not(folder: Path) -> None:
    folder.mkdir()
    for name in ("old.new", "old.lock", "young.new", "young.lock"):
        (folder / name).touch()
    for name in ("old.new", "old.lock"):
        os.utime(folder / name, (1, 1))
    disk_cache.put("a", SCRIPT)
    assert {path.name for path in folder.iterdir()} == {"a.script", "young.new", "young.lock"}


def test_several_that_want_the_same_one_at_once_make_it_once(folder: Path) -> None:
    begun, others, made = threading.Event(), threading.Event(), []

    def make() -> Script:
        made.append(1)
        begun.set()
        assert others.wait(60)
        return SCRIPT

    def want(_: int) -> Script:
        return disk_cache.shared("a", EXERCISE.properties, make)

    # Files are locked by who opened them, so threads stand for processes.
    with ThreadPoolExecutor(3) as threads:
        waiting = threads.map(want, range(3))
        assert begun.wait(60)
        others.set()
        assert all(alike(each, SCRIPT) for each in waiting)
    assert made == [1]
    assert [path.name for path in folder.iterdir()] == ["a.script"], "no lock is left over"


def test_nobody_waits_for_ever(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(disk_cache, "PATIENCE_S", 0.05)
    with disk_cache._alone("a"):  # by somebody who was stopped
        assert alike(disk_cache.shared("a", EXERCISE.properties, lambda: SCRIPT), SCRIPT)


def test_a_lock_of_a_process_that_died_stops_nobody(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "PATIENCE_S", 1e9)
    folder.mkdir()
    (folder / "a.lock").touch()
    assert alike(disk_cache.shared("a", EXERCISE.properties, lambda: SCRIPT), SCRIPT)


def test_where_no_lock_can_be_made_it_is_made_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert alike(disk_cache.shared("a", EXERCISE.properties, lambda: SCRIPT), SCRIPT)
