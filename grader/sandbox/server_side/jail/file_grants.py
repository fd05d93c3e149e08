"""The files that a submission may read: Python, torch and system libraries, but no answers."""

import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from headcheck.grader.location import HEADCHECK
from headcheck.grader.sandbox.server_side.jail import landlock

ANSWER_PACKAGES = ("headcheck/reference", "headcheck/properties", "headcheck/exercises", "tests")
"""packages that contain answers"""
GRADER = Path(__file__).resolve().parents[3]
PROJECT_ROOT = HEADCHECK.parent
READABLE = (GRADER / "sandbox", GRADER / "reading")
"""the grader's own code that a submission's process runs and may therefore read"""
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/alternatives")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_DEVICES = {
    "/dev/null": landlock.READ_FILE | landlock.WRITE_FILE,
    "/dev/zero": landlock.READ_FILE,
    "/dev/random": landlock.READ_FILE,
    "/dev/urandom": landlock.READ_FILE,
}


def list_readable_trees() -> list[Path]:
    """List the existing folders and files that are read when modules or libraries are loaded."""
    standard = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    base = Path(sys.base_prefix)
    system = [Path(name) for name in (*_LIBRARIES, *_FILES)]
    trees = [*list_package_folders(), *standard, base / "lib", base / "lib64", *system, *READABLE]
    return list(dict.fromkeys(path.resolve() for path in trees if path.exists()))


def list_package_folders() -> list[Path]:
    """List the folders of installed packages; other folders on the path belong to the caller."""
    return [Path(entry) for entry in sys.path if entry.endswith("-packages")]


def list_needed_paths() -> list[Path]:
    """List the paths that the server itself reads, under every name by which it refers to them."""
    as_named = [path for path in list_package_folders() if path.exists()]
    return list(dict.fromkeys([*list_readable_trees(), *as_named, HEADCHECK, GRADER]))


def find_hidden_packages(trees: Iterable[Path]) -> list[Path]:
    """Find the packages with answers, in the project and all installations below these trees."""
    patterns = ("*-packages", "python*/*-packages")
    installed = [folder for tree in trees for pattern in patterns for folder in tree.glob(pattern)]
    folders = (PROJECT_ROOT, *list_package_folders(), *installed)
    packages = (folder / package for folder in folders for package in ANSWER_PACKAGES)
    return [package.resolve() for package in packages if package.exists()]


def compute_grants(stage: Path | None) -> Mapping[Path, int]:
    """Return a submission's rights on files; it may write only on the stage."""
    readable = list_readable_trees()
    grants = landlock.compute_read_grants(readable, find_hidden_packages(readable))
    grants |= {Path(device): rights for device, rights in _DEVICES.items()}
    return grants if stage is None else grants | {stage: landlock.SCRATCH}
