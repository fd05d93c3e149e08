"""Whatever is handed in as a file: it is judged, or one line says why it is not."""

from pathlib import Path

import pytest

from tests.hostile.arena import Arena, join_messages
from tests.hostile.conftest import SETTINGS, Arenas
from tests.hostile.files import FILES, OddFile


def placed(arena: Arena, odd: OddFile) -> Path:
    """The file, in a folder that the grader may read."""
    folder = arena.folder / "handed in"
    folder.mkdir()
    path = folder / odd.name
    try:
        odd.make(path)
    except PermissionError:
        pytest.skip("only root can make a device")
    return path


LARGEST = "a million empty cells"
ORDINARY = [odd for odd in FILES if odd.title != LARGEST]


@pytest.mark.sampled("odd", FILES, ORDINARY, ids=lambda odd: odd.title)
def test_file_is_graded_or_refused(arenas: Arenas, odd: OddFile) -> None:
    arena = arenas(SETTINGS[0])
    path = placed(arena, odd)
    try:
        said = arena.ask(op="grade", path=str(path), limits=dict(odd.limits))
    finally:
        arena.furnish()
        arena.before = arena.snapshot()
    assert "fault" not in said
    [record] = said["records"]
    full = record["status"] == "passed" and record["score"] == record["max_score"]
    told = bool(join_messages(record)) and record["score"] == 0
    assert full or told, join_messages(record)
    assert odd.loads in (None, full), join_messages(record)
    assert len(join_messages(record)) < 5000
    assert arena.check_side_effects(said, "none") == []
    assert arena.check_next_submission() == []


def test_titles_are_unique() -> None:
    assert len({odd.title for odd in FILES}) == len(FILES)
