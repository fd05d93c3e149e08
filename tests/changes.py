"""Which answers a change touches, told from git.

`python -m tests.changes N` audits exercises with about N answers, first those that changed.
"""

import re
import subprocess
import sys
import zlib
from collections.abc import Sequence
from typing import TypeVar

from headcheck.exercises import ALL, BY_SLUG
from headcheck.exercises.answers import load_bank
from headcheck.properties.families import ALL as PROPERTIES
from tests.git_changes import ask_git, list_changed_files
from tests.golden import texts

Member = TypeVar("Member")
WEIGHTS = {"gpt2_size": 10}
"""how many ordinary answers one answer to an exercise takes as long as"""


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
    commit = ask_git("rev-parse", "HEAD")
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
    if chosen := choose_exercises(int(sys.argv[1])):
        command = [sys.executable, "-m", "headcheck", "audit", *chosen]
        sys.exit(subprocess.run(command, check=False).returncode)
    sys.stdout.write(f"no exercise has as few as {sys.argv[1]} answers: nothing is audited\n")
