"""A long run of submissions and attacks: python -m tests.hostile.soak [COUNT [SEED]].

Grades COUNT submissions on one fork server, every fourth of them an attack, and prints what there
was before, halfway and after: processes, file descriptors, files in shared places, memory of
grader and server. A verdict that is not the expected one is printed, too, and makes the run fail.
"""

import os
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from tests.hostile.arena import Arena, ArenaSetting, GraderGone, SandboxBroken
from tests.hostile.conftest import DEFAULT_USER
from tests.hostile.corpus import ATTACKS, Attack
from tests.hostile.grader_process import find_descendants

SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm")
ATTACK_EVERY = 4
KIB = 1024


def get_private_memory(pid: int) -> int:
    """What a process holds for itself, in KiB."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private = (row.split()[1] for row in rows if row.startswith("Private_"))
    return sum(map(int, private))


def count_files_of_user(folder: str) -> int:
    """How many entries of a folder belong to the user whom submissions run as."""
    user = os.geteuid() if DEFAULT_USER is None else DEFAULT_USER
    return sum(path.lstat().st_uid == user for path in Path(folder).iterdir())


def count_resources(arena: Arena) -> dict[str, int]:
    """What must not grow."""
    reply = arena.ask(op="grade", path=str(arena.folder / "nothing.py"))
    server = arena.state["server"]
    return {
        "processes below the grader": len(list(find_descendants(arena.process.pid))),
        "descriptors of the grader": reply["descriptors"],
        "descriptors of the server": len(os.listdir(f"/proc/{server}/fd")),  # noqa: PTH208
        "its user's files in shared places": sum(map(count_files_of_user, SHARED_FOLDERS)),
        "MiB of the grader": reply["memory"] >> 20,
        "private MiB of the server": get_private_memory(server) // KIB,
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
    }


def choose_submissions(count: int, seed: int) -> Iterator[Attack | None]:
    """Good submissions and attacks; None is a good one."""
    draw = random.Random(seed)
    for i in range(count):
        yield draw.choice(ATTACKS) if i % ATTACK_EVERY == ATTACK_EVERY - 1 else None


def grade_one(arena: Arena, attack: Attack | None) -> list[str]:
    """What is wrong about one submission. Raises Gone, Broken."""
    if attack is None:
        return arena.check_next_submission()
    token = os.urandom(6).hex()
    reply = arena.grade(attack.source, attack.limits, token)
    return [*arena.check_record(reply, attack), *arena.check_side_effects(reply, token)]


def main(arguments: list[str]) -> int:
    """Soak, and print the table; how many verdicts were wrong."""
    numbers = [int(argument) for argument in arguments]
    count, seed = [*numbers, *(2000, 0)[len(numbers) :]]
    wrong = 0
    tempfile.tempdir = "/tmp"
    with Arena(ArenaSetting("A", DEFAULT_USER)) as arena:
        for attack in [None, *ATTACKS[:2], None]:  # whatever is done once
            grade_one(arena, attack)
        before = halfway = count_resources(arena)
        began = time.monotonic()
        for number, attack in enumerate(choose_submissions(count, seed)):
            if number == count // 2:
                halfway = count_resources(arena)
            try:
                problems = grade_one(arena, attack)
            except (GraderGone, SandboxBroken) as gone:
                problems = [str(gone)]
                arena.revive()
            wrong += bool(problems)
            for problem in problems:
                print(f"{attack.name if attack else 'a good one'}: {problem}", flush=True)
        spent, after = time.monotonic() - began, count_resources(arena)
        level = arena.state["rung"]
    print(format_table(before, halfway, after))
    print(
        f"rung {level}; {count} submissions, {count // ATTACK_EVERY} of them attacks, {wrong} wrong"
    )
    print(f"{spent:.0f} s, {1000 * spent / count:.0f} ms each")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // KIB} MiB")
    return wrong


def format_table(*counts: dict[str, Any]) -> str:
    """What was counted before, halfway and after, side by side."""
    names = ("before", "halfway", "after")
    rows = [("", *names), *((what, *(each[what] for each in counts)) for what in counts[0])]
    return "\n".join(f"{what:<36}" + "".join(f" {n:>8}" for n in found) for what, *found in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
