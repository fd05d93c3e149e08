"""What a killed run left is removed by the next one; what another one uses is not."""

import os
import stat
import sys
from pathlib import Path

import pytest

from headcheck.grader.course.intake import scratch

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="folders have no locks there")


@pytest.fixture
def temporary(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    return tmp_path


def aged(path: Path) -> Path:
    os.utime(path, (0, 0))
    return path


def test_the_folder_is_private_and_gone_afterwards(temporary: Path) -> None:
    with scratch.make_folder() as folder:
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700 and folder.parent == temporary
        (folder / "a.py").write_text("x")
    assert list(temporary.iterdir()) == []


def test_folders_in_use_stay_and_stale_ones_are_removed(temporary: Path) -> None:
    left = temporary / f"{scratch.PREFIX}left"
    left.mkdir()
    (left / "a.py").write_text("x")
    young = temporary / f"{scratch.PREFIX}young"
    young.mkdir()
    others = temporary / "others"
    others.mkdir()
    link = temporary / f"{scratch.PREFIX}link"
    link.symlink_to(others, target_is_directory=True)
    with scratch.make_folder() as used:
        aged(used)
        aged(left)
        aged(others)
        with scratch.make_folder():
            assert used.exists() and young.exists() and others.exists() and link.is_symlink()
            assert not left.exists()
