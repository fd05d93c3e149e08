"""Where Python, torch and the system's libraries lie, and what lies there that must stay unread."""

import sys
import sysconfig
from collections.abc import Iterable, Mapping
from pathlib import Path

from grader.sandbox.server_side.jail import landlock

ANSWER_PACKAGES = ("reference", "properties", "exercises", "tests")
"""packages that know the answers"""
GRADER = Path(__file__).resolve().parents[3]
PROJECT_ROOT = GRADER.parent
READABLE = (GRADER / "sandbox", GRADER / "reading")
"""what a submission's process is made of, which it may therefore read"""
_LIBRARIES = ("/usr/lib", "/usr/lib64", "/usr/local/lib", "/lib", "/lib64", "/etc/alternatives")
_FILES = ("/etc/ld.so.cache", "/etc/localtime", "/usr/share/zoneinfo")
_DEVICES = {
    "/dev/null": landlock.READ_FILE | landlock.WRITE_FILE,
    "/dev/zero": landlock.READ_FILE,
    "/dev/random": landlock.READ_FILE,
    "/dev/urandom": landlock.READ_FILE,
}


def list_readable_trees() -> list[Path]:
    """Folders and files that importing modules and loading libraries may read, as they exist."""
    standard = [Path(sysconfig.get_path(name)) for name in ("stdlib", "platstdlib")]
    base = Path(sys.base_prefix)
    system = [Path(name) for name in (*_LIBRARIES, *_FILES)]
    found = [*list_package_folders(), *standard, base / "lib", base / "lib64", *system, *READABLE]
    return list(dict.fromkeys(path.resolve() for path in found if path.exists()))


def list_package_folders() -> list[Path]:
    """The folders of installed packages. Others on the path are the caller's business."""
    return [Path(entry) for entry in sys.path if entry.endswith("-packages")]


def list_needed_paths() -> list[Path]:
    """What the server itself reads, by every name that it uses for it."""
    as_named = [path for path in list_package_folders() if path.exists()]
    return list(dict.fromkeys([*list_readable_trees(), *as_named, GRADER]))


def find_hidden_packages(among: Iterable[Path]) -> list[Path]:
    """The packages that know the answers, in every installation within these trees."""
    where = ("*-packages", "python*/*-packages")
    installed = [folder for tree in among for glob in where for folder in tree.glob(glob)]
    folders = (PROJECT_ROOT, *list_package_folders(), *installed)
    return [
        folder / room for folder in folders for room in ANSWER_PACKAGES if (folder / room).exists()
    ]


def compute_grants(stage: Path | None) -> Mapping[Path, int]:
    """What a submission may do with files; on the stage it may write."""
    readable = list_readable_trees()
    found = landlock.compute_read_grants(readable, find_hidden_packages(readable))
    found |= {Path(device): rights for device, rights in _DEVICES.items()}
    return found if stage is None else found | {stage: landlock.SCRATCH}
