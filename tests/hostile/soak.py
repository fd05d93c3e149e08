"""A long run of submissions and attacks: python -m tests.hostile.soak [COUNT [SEED]].

Grades COUNT submissions on one fork server, every fourth of them an attack, and prints what there
was before, halfway and after: processes, file descriptors, files in shared places, memory of
examiner and server. A verdict that is not the expected one is printed, too, and makes the run fail.
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

from tests.hostile.arena import Arena, Broken, Gone, Setting
from tests.hostile.conftest import AS_IS
from tests.hostile.corpus import ATTACKS, Attack
from tests.hostile.examiner import below

PLACES = ("/tmp", "/var/tmp", "/dev/shm")
EVERY = 4
KIB = 1024


def memory_of(pid: int) -> int:
    """What a process holds for itself, in KiB."""
    rows = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    private = (row.split()[1] for row in rows if row.startswith("Private_"))
    return sum(map(int, private))


def files_of_user(place: str) -> int:
    """How many entries of a folder belong to the user whom submissions run as."""
    user = os.geteuid() if AS_IS is None else AS_IS
    return sum(path.lstat().st_uid == user for path in Path(place).iterdir())


def counted(arena: Arena) -> dict[str, int]:
    """What must not grow."""
    said = arena.ask(op="grade", path=str(arena.folder / "nothing.py"))
    server = arena.state["server"]
    return {
        "processes below the examiner": len(list(below(arena.process.pid))),
        "descriptors of the examiner": said["descriptors"],
        "descriptors of the server": len(os.listdir(f"/proc/{server}/fd")),  # noqa: PTH208
        "its user's files in shared places": sum(map(files_of_user, PLACES)),
        "MiB of the examiner": said["memory"] >> 20,
        "private MiB of the server": memory_of(server) // KIB,
        "mounts": len(Path("/proc/self/mounts").read_text().splitlines()),
    }


def chosen(count: int, seed: int) -> Iterator[Attack | None]:
    """Good submissions and attacks; None is a good one."""
    draw = random.Random(seed)
    for i in range(count):
        yield draw.choice(ATTACKS) if i % EVERY == EVERY - 1 else None


def graded(arena: Arena, attack: Attack | None) -> list[str]:
    """What is wrong about one submission. Raises Gone, Broken."""
    if attack is None:
        return arena.next_one()
    token = os.urandom(6).hex()
    said = arena.grade(attack.path, attack.limits, token)
    return [*arena.verdict(said, attack), *arena.witnesses(said, token)]


def main(arguments: list[str]) -> int:
    """Soak, and print the table; how many verdicts were wrong."""
    numbers = [int(argument) for argument in arguments]
    count, seed = [*numbers, *(2000, 0)[len(numbers) :]]
    wrong = 0
    tempfile.tempdir = "/tmp"
    with Arena(Setting("A", AS_IS)) as arena:
        for attack in [None, *ATTACKS[:2], None]:  # whatever is done once
            graded(arena, attack)
        before = halfway = counted(arena)
        began = time.monotonic()
        for number, attack in enumerate(chosen(count, seed)):
            if number == count // 2:
                halfway = counted(arena)
            try:
                problems = graded(arena, attack)
            except (Gone, Broken) as gone:
                problems = [str(gone)]
                arena.revive()
            wrong += bool(problems)
            for problem in problems:
                print(f"{attack.name if attack else 'a good one'}: {problem}", flush=True)
        spent, after = time.monotonic() - began, counted(arena)
        rung = arena.state["rung"]
    print(table(before, halfway, after))
    print(f"rung {rung}; {count} submissions, {count // EVERY} of them attacks, {wrong} wrong")
    print(f"{spent:.0f} s, {1000 * spent / count:.0f} ms each")
    print(f"this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // KIB} MiB")
    return wrong


def table(*counts: dict[str, Any]) -> str:
    """What was counted before, halfway and after, side by side."""
    names = ("before", "halfway", "after")
    rows = [("", *names), *((what, *(each[what] for each in counts)) for what in counts[0])]
    return "\n".join(f"{what:<36}" + "".join(f" {n:>8}" for n in found) for what, *found in rows)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]) > 0)
