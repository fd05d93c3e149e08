"""Cover folders with empty mounts, so that a process sees only the files that it needs."""

import os
from collections.abc import Sequence
from pathlib import Path

from headcheck.grader.sandbox.server_side.jail import kernel

UNCOVERED = ("/proc", "/dev")


def cover(folder: Path, needed: Sequence[Path]) -> None:
    """Mount an empty folder over this one, with copies of the needed paths in it. Raises OSError.

    The process must be in its own mount namespace.
    """
    outermost = [path for path in needed if not set(path.parents) & set(needed)]
    copied = [(path, path.is_dir(), kernel.copy_mount(path)) for path in outermost]
    flags = kernel.MS_NOSUID | kernel.MS_NODEV
    kernel.mount("tmpfs", folder, "tmpfs", flags, "mode=755,size=1m")
    umask = os.umask(0o022)  # the user `nobody` has to enter the folders on the way
    try:
        for path, is_folder, tree in copied:
            (path if is_folder else path.parent).mkdir(parents=True, exist_ok=True)
            if not is_folder:
                path.touch()
            kernel.place_mount(tree, path)
            os.close(tree)
    finally:
        os.umask(umask)
    kernel.mount(None, folder, None, kernel.MS_REMOUNT | kernel.MS_RDONLY | flags)


def cover_all(needed: Sequence[Path], hidden: Sequence[Path]) -> None:
    """Cover the hidden folders, and all top-level ones but `/dev` and `/proc`. Raises OSError."""
    for folder in sorted(Path("/").iterdir()):
        if folder.is_symlink() or not folder.is_dir() or str(folder) in UNCOVERED:
            continue
        if folder not in needed:
            cover(folder, [path for path in needed if folder in path.parents])
    for folder in hidden:
        if folder.is_dir():
            cover(folder, [])
