"""A plain installation grades the class of the README, notebooks with magics among it.

The command replaces its process, so nothing that a test takes away from its own would be missing
there. This needs an environment in which nothing more is installed.
"""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

EXTRAS = ("nbformat", "einops", "xdist", "sqlalchemy")
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
    ungraded = done.stdout.partition("Not graded:")[2]
    assert re.findall(r"examples/class/(\w+)", ungraded) == ["donald_knuth", "niklaus_wirth"]
