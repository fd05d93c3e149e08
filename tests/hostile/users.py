"""Running something as another user, with a Python that this user may run."""

import atexit
import functools
import shutil
import site
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

NOBODY = 65534
HAS_TORCH = "import sys, importlib.util as u; sys.exit(u.find_spec('torch') is None)"


def build_user_options(user: int | None) -> dict[str, Any]:
    """What `subprocess` is told to run something as a user; None stays who we are."""
    return {} if user is None else {"user": user, "group": user, "extra_groups": []}


@functools.cache
def find_interpreter(user: int | None) -> str:
    """A Python that a user may run, with our packages. Empty if there is none.

    Ours may lie in root's home: then the system's of the same version stands in, in an environment
    whose packages are ours.
    """
    version = f"python{sys.version_info.major}.{sys.version_info.minor}"
    if _can_run(sys.executable, user):
        return sys.executable
    for path in (f"/usr/bin/{version}", f"/usr/local/bin/{version}"):
        if _can_run(path, user):
            made = str(_make_environment(Path(path), version))
            # Our packages may lie in a folder that this user cannot enter, as tox makes them.
            return made if _can_run(made, user, HAS_TORCH) else ""
    return ""


def _can_run(path: str, user: int | None, code: str = "") -> bool:
    try:
        return (
            subprocess.run([path, "-P", "-c", code], cwd="/", **build_user_options(user)).returncode
            == 0
        )
    except OSError:
        return False


def _make_environment(python: Path, version: str) -> Path:
    folder = Path(tempfile.mkdtemp(prefix="headcheck-python-"))
    atexit.register(shutil.rmtree, folder)
    folder.chmod(0o755)
    (folder / "pyvenv.cfg").write_text(f"home = {python.parent}\n")
    (folder / "bin").mkdir()
    (folder / "bin" / "python").symlink_to(python)
    (folder / "lib" / version).mkdir(parents=True)
    (folder / "lib" / version / "site-packages").symlink_to(site.getsitepackages()[0])
    return folder / "bin" / "python"
