"""What a change is, told from git: the files that differ from the commit that it starts from.

A change is what differs from the merge base with the main branch or, on that branch itself, from
the commit before. HEADCHECK_BASE names another commit. Without git nothing counts as changed.
"""

import functools
import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[1]
BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")


def ask_git(*arguments: str) -> str:
    """What git prints, without spaces around it; nothing where it fails or is not there."""
    try:
        done = subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True)
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


@functools.cache
def find_base() -> str:
    """The commit to compare with; empty if there is none."""
    if named := os.environ.get("HEADCHECK_BASE", ""):
        return named
    head = ask_git("rev-parse", "HEAD")
    bases = (ask_git("merge-base", "HEAD", branch) for branch in BRANCHES)
    return next((base for base in bases if base not in ("", head)), "") or ask_git(
        "rev-parse", "--verify", "--quiet", "HEAD^1"
    )


@functools.cache
def list_changed_files() -> tuple[str, ...]:
    """The paths that differ from the base, those of new files among them."""
    base = find_base()
    changed = ask_git("diff", "--name-only", base, "--") if base else ""
    new = ask_git("ls-files", "--others", "--exclude-standard")
    return (*changed.splitlines(), *new.splitlines())
