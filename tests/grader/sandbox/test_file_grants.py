"""What a submission may read, and who the server is: in folders made for the purpose."""

import os
import stat
import sys
from pathlib import Path

import pytest

from headcheck.grader.sandbox.server_side.jail import (
    file_grants,
    kernel,
    landlock,
    namespaces,
    privileges,
    probe,
)
from headcheck.grader.sandbox.server_side.jail.landlock import READ, READ_DIR

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the jail is Linux's")
AS_ROOT = pytest.mark.skipif(os.name != "posix" or os.geteuid() != 0, reason="needs root")


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    for name in ("lib/torch/nn.py", "lib/numpy.py", "lib/exercises/mha/solution.py", "away/x.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("")
    return tmp_path


def test_a_tree_is_granted_as_a_whole(tree: Path) -> None:
    assert landlock.compute_read_grants([tree / "lib"], []) == {tree / "lib": READ}


def test_hidden_folder_splits_a_granted_tree(tree: Path) -> None:
    lib = tree / "lib"
    assert landlock.compute_read_grants([lib], [lib / "exercises"]) == {
        lib: READ_DIR,
        lib / "numpy.py": READ,
        lib / "torch": READ,
    }
    deep = landlock.compute_read_grants([lib], [lib / "exercises/mha/solution.py"])
    assert deep[lib / "exercises/mha"] == READ_DIR
    assert not any("solution" in str(path) for path in deep)


def test_nothing_in_a_hidden_folder_is_granted(tree: Path) -> None:
    assert landlock.compute_read_grants([tree / "lib/exercises/mha"], [tree / "lib"]) == {}
    assert landlock.compute_read_grants([tree / "lib"], [tree / "lib"]) == {}


def test_links_are_followed_and_lead_to_nothing_hidden(tree: Path) -> None:
    lib = tree / "lib"
    (lib / "answers").symlink_to(lib / "exercises")
    (lib / "round").symlink_to(lib)
    (lib / "elsewhere").symlink_to(tree / "away")
    granted = landlock.compute_read_grants([lib], [lib / "exercises"])
    assert granted.keys() == {lib, lib / "numpy.py", lib / "torch", tree / "away"}


def test_solutions_are_hidden_wherever_they_are_installed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    packages = tmp_path / "lib/python3.11/site-packages"
    other = tmp_path / "lib/python3.13/dist-packages"
    for folder in (packages, other):
        for room in file_grants.ANSWER_PACKAGES:
            (folder / room).mkdir(parents=True)
    monkeypatch.setattr(sys, "path", [str(packages)])
    hidden = set(file_grants.find_hidden_packages([tmp_path / "lib"]))
    assert {
        folder / room for folder in (packages, other) for room in file_grants.ANSWER_PACKAGES
    } <= hidden
    granted = landlock.compute_read_grants([tmp_path / "lib"], hidden)
    assert not any(path.name in file_grants.ANSWER_PACKAGES for path in granted)


def test_only_answer_free_parts_of_headcheck_are_readable() -> None:
    granted = file_grants.compute_grants(None)
    lies = (
        path.relative_to(file_grants.PROJECT_ROOT)
        for path in granted
        if path.is_relative_to(file_grants.PROJECT_ROOT)
    )
    # A virtual environment may lie in the checkout, too.
    beneath = {
        file_grants.PROJECT_ROOT / path
        for path in lies
        if not (file_grants.PROJECT_ROOT / path).is_relative_to(sys.prefix)
    }
    if "-packages" not in file_grants.PROJECT_ROOT.name:
        assert beneath == set(file_grants.READABLE)
    assert not any(
        path.parts[-1:] == (room,) for path in granted for room in file_grants.ANSWER_PACKAGES
    )


def test_mount_point_hides_nothing_needed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(namespaces, "STAGE_FOLDERS", ("/tmp",))
    said = probe.attempt(lambda: [][len(str(namespaces._choose_stage_folder([Path("/usr/lib")])))])
    assert said is not None and "none of" not in said
    with pytest.raises(namespaces.NoStage, match="Python or headcheck is there"):
        namespaces._choose_stage_folder([Path("/tmp/venv/lib")])


# ------------------------------------------------------------------------------- owner


def test_closed_folders_are_found_from_outside_in(tree: Path) -> None:
    (tree / "lib").chmod(0o700)
    (tree / "lib/torch").chmod(0o700)
    closed = privileges.find_closed_folders(
        [tree / "lib/torch", tree / "lib/numpy.py", tree / "away"]
    )
    beneath = {folder: needed for folder, needed in closed.items() if folder >= tree}
    if not any(not f.stat().st_mode & stat.S_IXOTH for f in tree.parents):
        assert beneath == {tree / "lib": [tree / "lib/torch", tree / "lib/numpy.py"]}
    else:  # the folder of this very test is closed
        assert len(closed) == 1


@AS_ROOT
@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077, 0o777])
def test_root_becomes_a_user_who_can_enter_what_is_needed(umask: int) -> None:
    base = Path("/mnt") if Path("/mnt").is_dir() else Path("/")
    home = base / f"headcheck-test-{os.getpid()}"
    needed = home / "python/lib"

    def become() -> None:
        os.umask(umask)
        privileges.become_unprivileged([needed])
        assert os.umask(0) == umask
        assert os.getuid() == os.getgid() == privileges.NOBODY and os.getgroups() == []
        assert [path.name for path in needed.iterdir()] == ["os.py"]
        assert not (home / "secret").exists()

    needed.mkdir(parents=True)
    try:
        (needed / "os.py").touch()
        (home / "secret").touch()
        home.chmod(0o700)
        assert probe.attempt(become) is None
        assert (home / "secret").exists()  # nothing changed for anyone else
    finally:
        (needed / "os.py").unlink()
        (home / "secret").unlink()
        for folder in (needed, needed.parent, home):
            folder.rmdir()


@AS_ROOT
def test_root_without_another_user_gets_a_one_line_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tmp_path.chmod(0o700)

    def refuse(namespaces: int) -> None:
        raise OSError(1, "Operation not permitted")

    monkeypatch.setattr(kernel, "unshare", refuse)
    said = probe.attempt(lambda: privileges.become_unprivileged([tmp_path]))
    assert said is not None and "\n" not in said
    assert said.startswith("as root, submissions run as user 65534, who cannot enter /")
    assert "run headcheck as an ordinary user" in said


def test_ordinary_user_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Passes if `setresuid`, which cannot be called here, is not called."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    monkeypatch.setattr(os, "setresuid", None)
    privileges.become_unprivileged([])
