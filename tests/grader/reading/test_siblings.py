"""Which files are taken along with a submission: what it imports, and nothing else."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from headcheck.grader.reading import siblings
from headcheck.grader.reading.siblings import gather_siblings
from headcheck.grader.reading.submission import (
    NO_SIBLINGS,
    Siblings,
    find_submissions,
    read_submission,
)

LIMIT = 1 << 20


def write_files(folder: Path, files: Mapping[str, str]) -> None:
    for name, text in files.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text, encoding="utf-8")


def gather(path: Path, *, limit: int = LIMIT) -> Siblings:
    """What is taken along with a file that is named alone."""
    [found] = find_submissions([str(path)])
    return gather_siblings(found, read_submission(found, limit), limit)


def gather_paths(folder: Path, files: Mapping[str, str], name: str = "main.py") -> set[str]:
    write_files(folder, files)
    return {"/".join(file.path) for file in gather(folder / name).files}


# ------------------------------------------------------------------------- what is found


@pytest.mark.parametrize(
    "statement",
    [
        "from utils import mask",
        "from utils import *",
        "import utils",
        "import os, utils as u",
        "import torch; import utils",
        "from .utils import mask",
        "from . import utils",
        "from . import (first,\n    utils)",
        "def f():\n\timport utils",
        "try:\n    from utils import mask\nexcept ImportError: pass",
    ],
)
def test_a_module_beside_is_taken_however_it_is_imported(statement: str, tmp_path: Path) -> None:
    files = {"main.py": f"import torch\n{statement}\nx = 1", "utils.py": "", "other.py": ""}
    assert gather_paths(tmp_path, files) == {"utils.py"}


@pytest.mark.parametrize("source", ["import math\nimport utils", ["import math\n", "import utils"]])
def test_a_notebook_s_imports_are_found(source: object, tmp_path: Path) -> None:
    notebook = json.dumps({"cells": [{"cell_type": "code", "source": source}], "nbformat": 4})
    files = {"main.ipynb": notebook, "utils.py": ""}
    assert gather_paths(tmp_path, files, "main.ipynb") == {"utils.py"}


def test_packages_beside_are_taken_with_what_leads_to_them(tmp_path: Path) -> None:
    files = {
        "main.py": "from pkg.sub import layer\nimport plain.inner",
        "pkg/__init__.py": "from .all import *",
        "pkg/sub/__init__.py": "",
        "pkg/sub/layer.py": "from ..other import x",
        "pkg/other.py": "",
        "pkg/all.py": "",
        "pkg/unused.py": "",
        "plain/inner.py": "",
    }
    assert gather_paths(tmp_path, files) == files.keys() - {"main.py", "pkg/unused.py"}


def test_a_file_in_a_package_finds_its_relatives_and_those_beside(tmp_path: Path) -> None:
    files = {
        "repo/pkg/__init__.py": "",
        "repo/pkg/sub/__init__.py": "",
        "repo/pkg/sub/main.py": "from ..mask import m\nimport near\nfrom pkg.sub.deep import d",
        "repo/pkg/sub/near.py": "",
        "repo/pkg/sub/deep.py": "",
        "repo/pkg/mask.py": "import outside\nfrom ...outside import x",
        "repo/outside.py": "",
    }
    taken = gather_paths(tmp_path, files, "repo/pkg/sub/main.py")
    inside = {"mask.py", "__init__.py", "sub/__init__.py", "sub/near.py", "sub/deep.py"}
    assert taken == {f"pkg/{name}" for name in inside}
    assert gather(tmp_path / "repo/pkg/sub/main.py").main == ("pkg", "sub", "main")


def test_a_file_finds_what_lies_in_its_repository(tmp_path: Path) -> None:
    files = {
        "repo/.git/HEAD": "",
        "repo/models/main.py": "from utils.masks import m\nimport models.near, outside",
        "repo/models/near.py": "",
        "repo/utils/masks.py": "",
        "outside.py": "",
    }
    taken = gather_paths(tmp_path, files, "repo/models/main.py")
    assert taken == {"utils/masks.py", "models/near.py"}
    for alone in find_submissions([str(tmp_path / "repo/models/main.py")], shared=True):
        found = gather_siblings(alone, b"from utils.masks import m\nimport near", LIMIT)
        assert {file.path for file in found.files} == {("near.py",)}


def test_imports_that_go_in_circles_end(tmp_path: Path) -> None:
    files = {"main.py": "import a", "a.py": "import b, main", "b.py": "import a, b"}
    assert gather_paths(tmp_path, files) == {"a.py", "b.py", "main.py"}


# ----------------------------------------------------------------- whose files they are


def test_files_side_by_side_may_be_a_class_s_and_are_not_taken(tmp_path: Path) -> None:
    write_files(tmp_path, {"ada.py": "import bob", "bob.py": ""})
    for arguments in ([tmp_path], [tmp_path / "ada.py", tmp_path / "bob.py"]):
        for found in find_submissions(list(map(str, arguments))):
            assert gather_siblings(found, b"import bob", LIMIT) == NO_SIBLINGS


def test_a_student_s_folder_holds_all_that_is_taken(tmp_path: Path) -> None:
    own = ("ada/src/main.py", "ada/__init__.py", "ada/own.py")
    write_files(tmp_path, dict.fromkeys((*own, "bob/answer.py", "__init__.py", "answer.py"), ""))
    text = b"import own, bob.answer, answer, ada.own\nfrom ... import answer\nfrom ..own import x"
    found = [f for f in find_submissions([str(tmp_path)]) if f.path.name == "main.py"]
    taken = gather_siblings(found[0], text, LIMIT)
    assert {"/".join(file.path) for file in taken.files} == {"ada/own.py", "ada/__init__.py"}


@pytest.mark.parametrize(
    "statement",
    [
        "import ../secret",
        "from ..secret import x",
        "from ... import secret",
        "import secret",
        "from .pkg/../../secret import x",
        "import os.secret",
        "from \0secret import x",
        "import séc",
    ],
)
def test_nothing_outside_of_the_folder_is_taken(statement: str, tmp_path: Path) -> None:
    files = {"in/main.py": statement, "secret.py": "", "in/pkg/x.py": "", "in/os/secret.py": ""}
    assert gather_paths(tmp_path, files, "in/main.py") == set()


def test_links_are_not_followed_and_named(tmp_path: Path) -> None:
    write_files(tmp_path, {"in/main.py": "import a, pkg.b", "secret.py": "", "out/b.py": ""})
    (tmp_path / "in/a.py").symlink_to(tmp_path / "secret.py")
    (tmp_path / "in/pkg").symlink_to(tmp_path / "out")
    found = gather(tmp_path / "in/main.py")
    assert found.files == ()
    assert found.problems == (("a.py", "is a symbolic link; hand in the file itself"),)


def test_pipes_and_folders_named_like_modules_are_not_read(tmp_path: Path) -> None:
    write_files(tmp_path, {"main.py": "import pipe, folder"})
    os.mkfifo(tmp_path / "pipe.py")
    (tmp_path / "folder.py").mkdir()
    assert gather(tmp_path / "main.py").files == ()


@pytest.mark.parametrize(
    "name", [b"\xff.py", b"--option.py", b"$(x).py", b"\x1b[32mgreen.py", b"a b.py", b".py.py"]
)
def test_a_submission_of_any_name_takes_what_is_beside_it(name: bytes, tmp_path: Path) -> None:
    write_files(tmp_path, {"utils.py": ""})
    path = tmp_path / os.fsdecode(name)
    path.write_text("import utils")
    found = gather(path)
    assert found.main == ("submission",)
    assert [file.path for file in found.files] == [("utils.py",)]


# ----------------------------------------------------------------------- how much it is


def test_sizes_are_added_up(tmp_path: Path) -> None:
    text = "import a, b\n"
    write_files(tmp_path, {"main.py": text, "a.py": "#" * 60, "b.py": "#" * 60})
    found = gather(tmp_path / "main.py", limit=100 + len(text))
    assert [file.path for file in found.files] == [("a.py",)]
    told = "is too large, together with the others; hand in less"
    assert found.problems == (("b.py", told),)


def test_so_many_files_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(siblings, "MAX_FILES", 2)
    others = dict.fromkeys(("a.py", "b.py", "c.py"), "")
    write_files(tmp_path, {"main.py": "import a, b, c", **others})
    found = gather(tmp_path / "main.py")
    assert len(found.files) == 2
    assert found.problems == (("c.py", "is one of more than 2 files; hand in fewer"),)


def test_a_file_of_nothing_but_imports_costs_little(tmp_path: Path) -> None:
    names = ", ".join(f"a{number}" for number in range(30_000))
    spaces = " " * 10_000
    text = "".join(f"from .{spaces}import\nimport {n}\n" for n in names.split(", ")[:20])
    write_files(tmp_path, {"main.py": f"import {names}\n{text}from x import ({names})"})
    assert gather(tmp_path / "main.py").files == ()
