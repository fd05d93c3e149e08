"""A plain installation grades a class, and says what it lacks for a notebook with magics.

The command replaces its process, so nothing that a test takes away from its own would be missing
there. This needs an environment in which nothing more is installed.
"""

import json
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXTRAS = ("IPython", "nbformat", "einops", "xdist", "sqlalchemy")
ROOT = Path(__file__).parents[2]

pytestmark = pytest.mark.skipif(
    any(map(find_spec, EXTRAS)), reason="extras are installed here: tox run -e plain"
)


def headcheck(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-P", "-m", "headcheck", *words]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)


def test_a_class_is_graded(tmp_path: Path) -> None:
    done = headcheck(tmp_path, "grade", str(ROOT / "examples" / "class"), "--out", "report")
    assert done.returncode == 1, done.stderr  # some of them are wrong
    assert "9/9 " in done.stderr and (tmp_path / "report" / "index.html").exists()


def test_a_notebook_with_magics_is_told_what_to_install(tmp_path: Path) -> None:
    source = "%time 1\nimport torch\nclass CausalAttention(torch.nn.Module):\n    pass\n"
    cell = {"cell_type": "code", "metadata": {}, "outputs": [], "source": source}
    notebook = {"cells": [cell], "metadata": {}, "nbformat": 4, "nbformat_minor": 5}
    (tmp_path / "ada.ipynb").write_text(json.dumps(notebook))
    done = headcheck(tmp_path, "check", "ada.ipynb")
    assert "pip install 'headcheck[student]'" in " ".join(done.stdout.split()), done.stderr
    assert "Traceback" not in done.stdout + done.stderr
