"""Drop root: a fork server that root starts becomes `nobody`.

Theory of operation
    Limits on processes do not apply to root, and root may write to everybody's files. So a server
    that root starts becomes `nobody` before it does anything else. Python must then be readable for
    every user, and often it is not: pyenv and virtual environments lie in root's home, which only
    root may enter. In that case the server first moves into its own mount namespace, and covers the
    closed folder with an empty one that contains only Python's folders. Other processes see no
    change. If this is impossible, an error explains what to do.
"""

import os
import stat
from collections.abc import Iterable, Sequence
from pathlib import Path

from headcheck.grader.sandbox.server_side.jail import kernel, mounts

NOBODY = 65534


class CannotDropRoot(Exception):
    """The server can only run as root, which is refused; the message says why and what to do."""


def become_unprivileged(needed: Sequence[Path]) -> None:
    """As root, become nobody, with access to all needed paths. Raises CannotDropRoot."""
    if os.geteuid() != 0 or is_mapped_root():
        return
    closed = find_closed_folders(needed)
    if closed:
        expose_needed(closed)
    if remaining := find_closed_folders(needed):
        raise CannotDropRoot(_explain_unreadable(next(iter(remaining))))
    try:
        os.setgroups([])
        os.setresgid(NOBODY, NOBODY, NOBODY)
        os.setresuid(NOBODY, NOBODY, NOBODY)
    except OSError as error:
        text = f"as root, submissions would run as user {NOBODY}, which is impossible here"
        raise CannotDropRoot(
            f"{text}: {error.strerror}; run headcheck as an ordinary user"
        ) from None


def _explain_unreadable(folder: Path) -> str:
    return (
        f"as root, submissions run as user {NOBODY}, who cannot enter {folder}, where Python or "
        "headcheck lies; run headcheck as an ordinary user, or install both where all can read"
    )


def is_mapped_root() -> bool:
    """Whether root is an ordinary user outside this namespace, as in a rootless container."""
    rows = [row.split() for row in Path("/proc/self/uid_map").read_text().splitlines()]
    return any(inside == "0" and outside != "0" for inside, outside, _ in rows)


def find_closed_folders(needed: Iterable[Path]) -> dict[Path, list[Path]]:
    """Return the outermost folders closed to other users, with the paths needed in each."""
    closed: dict[Path, list[Path]] = {}
    for path in needed:
        for folder in (*reversed(path.parents), path):
            if folder.is_dir() and not folder.stat().st_mode & stat.S_IXOTH:
                closed.setdefault(folder, []).append(path)
                break
    return closed


def expose_needed(closed: dict[Path, list[Path]]) -> None:
    """For this process, leave only the needed paths in closed folders. Raises CannotDropRoot."""
    try:
        kernel.unshare(kernel.NEWNS)
        kernel.mount(None, Path("/"), None, kernel.MS_REC | kernel.MS_PRIVATE)
        for folder, needed in closed.items():
            mounts.cover(folder, needed)
    except OSError:
        raise CannotDropRoot(_explain_unreadable(next(iter(closed)))) from None
