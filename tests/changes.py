"""Which answers a change touches, told from git; `python -m tests.changes N` prints exercises.

A change is what differs from the merge base with the main branch or, on that branch itself, from
the commit before. HEADCHECK_BASE names another commit. Without git nothing counts as touched.
"""

import functools
import os
import re
import subprocess
import sys
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from headcheck.exercises import ALL, BY_SLUG
from headcheck.exercises.answers import load_bank
from headcheck.properties.families import ALL as PROPERTIES
from tests.golden import texts

ROOT = Path(__file__).parents[1]
BRANCHES = ("origin/HEAD", "origin/main", "origin/master", "main", "master")
Member = TypeVar("Member")
WEIGHTS = {"gpt2_size": 10}
"""how many ordinary answers one answer to an exercise takes as long as"""


def _git(*arguments: str) -> str:
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
    head = _git("rev-parse", "HEAD")
    bases = (_git("merge-base", "HEAD", branch) for branch in BRANCHES)
    return next((base for base in bases if base not in ("", head)), "") or _git(
        "rev-parse", "--verify", "--quiet", "HEAD^1"
    )


@functools.cache
def list_changed_files() -> tuple[str, ...]:
    """The paths that differ from the base, changes that are not committed among them."""
    base = find_base()
    return tuple(_git("diff", "--name-only", base, "--").splitlines()) if base else ()


def find_changed_exercises() -> list[str]:
    """The exercises in whose folders something changed, in the order of teaching."""
    parts = [path.split("/") for path in list_changed_files()]
    changed = {part[1] for part in parts if part[0] == "exercises" and len(part) > 2}
    return [slug for slug in BY_SLUG if slug in changed]


def find_changed_claims() -> set[str]:
    """The claims of the families of properties that changed."""
    found = (re.fullmatch(r"properties/families/(\w+)\.py", p) for p in list_changed_files())
    modules = {f"headcheck.properties.families.{match[1]}" for match in found if match}
    return {claim.claim for claim in PROPERTIES if claim.check.__module__ in modules}


def list_touched_answers() -> list[str]:
    """Answers whose verdicts a change may turn over, as `slug/name`.

    All answers to an exercise whose folder changed; of the others the wrong ones that were
    noticed first by a claim of a family that changed.
    """
    slugs, claims = find_changed_exercises(), find_changed_claims()
    found = [f"{slug}/{answer.name}" for slug in slugs for answer in load_bank(BY_SLUG[slug])]
    for slug in BY_SLUG.keys() - set(slugs):
        for kind in texts.load_kinds(slug):
            if claims & set(texts.find_rows(kind.text, "claim")):
                found += [f"{slug}/{name}" for name in kind.names]
    return sorted(found)


def thin_out(members: Sequence[Member], most: int) -> list[Member]:
    """So many of them at most, evenly spread, the first among them."""
    step = max(1, -(-len(members) // most))
    return list(members[::step])


def choose_exercises(most: int) -> list[str]:
    """Exercises with about so many answers: those that changed, then some drawn by the commit."""
    commit = _git("rev-parse", "HEAD")
    changed = find_changed_exercises()
    drawn = sorted(BY_SLUG, key=lambda slug: zlib.crc32(f"{commit} {slug}".encode()))
    chosen: list[str] = []
    for slug in sorted(drawn, key=lambda slug: slug not in changed):
        size = len(load_bank(BY_SLUG[slug])) * WEIGHTS.get(slug, 1)
        if size <= most:
            chosen.append(slug)
            most -= size
    return [exercise.slug for exercise in ALL if exercise.slug in chosen]


if __name__ == "__main__":
    sys.stdout.write(" ".join(choose_exercises(int(sys.argv[1]))) + "\n")
