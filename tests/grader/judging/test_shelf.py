"""Scripts on disk: what was written is read, and what cannot be read is as good as not there."""

import os
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from exercises import BY_SLUG
from grader.judging import shelf
from grader.judging.exchange import Script
from grader.judging.script import compiled

EXERCISE = BY_SLUG["causal_attention"]
PLAN = EXERCISE.plan()
CLAIMS = dict(list(PLAN.items())[:12])
SCRIPT = compiled(replace(EXERCISE.contract, name=""), CLAIMS)


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "headcheck"


def alike(one: Script, other: Script) -> bool:
    return shelf._encoded(one) == shelf._encoded(other)


def test_what_was_put_is_taken(folder: Path) -> None:
    shelf.put("a", SCRIPT)
    taken = shelf.take("a", EXERCISE.properties)
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
    assert shelf.take("a", EXERCISE.properties) is None


@pytest.mark.parametrize("length", [0, 5, 100, -1])
def test_a_file_that_ends_early_is_none(folder: Path, length: int) -> None:
    shelf.put("a", SCRIPT)
    path = folder / "a.script"
    path.write_bytes(path.read_bytes()[:length])
    assert shelf.take("a", EXERCISE.properties) is None


def test_a_file_of_something_else_is_none(folder: Path) -> None:
    folder.mkdir()
    (folder / "a.script").write_bytes(os.urandom(1000))
    assert shelf.take("a", EXERCISE.properties) is None


def test_a_script_of_unknown_claims_is_none() -> None:
    shelf.put("a", SCRIPT)
    assert shelf.take("a", EXERCISE.properties[:3]) is None


def test_where_nothing_can_be_written_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    shelf.put("a", SCRIPT)
    assert shelf.take("a", EXERCISE.properties) is None


def test_the_ones_used_last_are_kept(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shelf, "KEPT", 2)
    for age, name in enumerate("abc"):
        shelf.put(name, SCRIPT)
        if (folder / f"{name}.script").exists():
            os.utime(folder / f"{name}.script", (age, age))
    shelf.take("b", EXERCISE.properties)
    shelf.put("d", SCRIPT)
    assert {path.stem for path in folder.iterdir()} == {"b", "d"}


def test_the_key_tells_seeds_and_places_apart() -> None:
    keys = {shelf.key_of("causal_attention", (), seed, "cpu") for seed in (0, 1)}
    assert len(keys | {shelf.key_of("causal_weights", (), 0, "cpu")}) == 3
