"""Files and folders of the working directory do not take the place of this package.

Courses have a `grader.py`, a folder `exercises`, a `conftest.py`: none of them may break the
command, the plugin or a notebook.
"""

from collections.abc import Callable
from importlib.metadata import entry_points
from pathlib import Path

import pytest

from tests.interpreter import run_python

PLUGIN = "headcheck.grader.ui.pytest_plugin.plugin"
NAMES = ("grader", "properties", "reference", "exercises", "headcheck_plugin")
STRANGER = "raise RuntimeError('a file of the course was imported')\n"
ANSWER = """
import torch

def simplified_attention(x):
    return torch.softmax(x @ x.T, dim=-1) @ x
"""
PASSING = "def test_passes():\n    assert 1 + 1 == 2\n"
TARGET = "answer.py:simplified_attention"
NOTEBOOK = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.run_cell({answer!r}, store_history=True).raise_error()
shell.run_cell("%load_ext headcheck", store_history=True).raise_error()
checked = "from headcheck import check\\ncheck(simplified_attention)"
shell.run_cell(checked, store_history=True).raise_error()
"""
COMMANDS = {
    "command": ("-m", "headcheck", "check", "answer.py", "--exercise", "simplified_attention"),
    "pytest": ("-m", "pytest", "-q", "test_passes.py"),
    "plugin": (
        *("-m", "pytest", "-q", "--headcheck", TARGET, "--exercise", "simplified_attention"),
        *("-k", "equals_the_equation"),
    ),
    "notebook": ("notebook.py",),
    "import": ("-c", "import headcheck; headcheck.check"),
}


def write_files(folder: Path) -> None:
    for name in NAMES:
        (folder / f"{name}.py").write_text(STRANGER)


def write_folders(folder: Path) -> None:
    for name in NAMES:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(STRANGER)


def test_no_folder_of_tests_is_a_package() -> None:
    """pytest would import it by its bare name, which a student's module may have, too."""
    assert list(Path(__file__).parents[2].rglob("__init__.py")) == []


WAYS = [(way, write) for way in COMMANDS for write in (write_files, write_folders)]


@pytest.mark.sampled(("way", "write"), WAYS, WAYS[::3])
def test_names_of_a_course_shadow_nothing(
    tmp_path: Path, way: str, write: Callable[[Path], None]
) -> None:
    write(tmp_path)
    (tmp_path / "conftest.py").write_text("")
    (tmp_path / "answer.py").write_text(ANSWER)
    (tmp_path / "test_passes.py").write_text(PASSING)
    (tmp_path / "notebook.py").write_text(NOTEBOOK.format(answer=ANSWER))
    known = {each.value for each in entry_points(group="pytest11")}
    plugin = {} if PLUGIN in known else {"PYTEST_PLUGINS": PLUGIN}  # where it is not installed
    ran = run_python(*COMMANDS[way], folder=tmp_path, **plugin)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "a file of the course was imported" not in ran.stdout + ran.stderr
