"""Killing it loses nothing: `python -m benchmarks.kills [COUNT [KILLS [SEED [FOLDER]]]]`.

Grades a course of right, wrong, broken and hostile answers with the real judge twice: undisturbed,
and killed by SIGKILL KILLS times, each time after a different number of submissions and at a random
moment of the next one: sometimes only the command, sometimes all of its processes. Compares the
results: the report without its times, and the CSV export, byte for byte. Needs a checkout, for the
hostile answers, and takes as long as two gradings of that course. If FOLDER is given (it must not
exist), all files stay there.

The exit code is 0 if the results are the same. It is 1 if they differ, if a finished submission was
lost, or if a process was left running.
"""

import hashlib
import itertools
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import nbformat
from nbformat import v4

from headcheck.exercises import BY_SLUG
from headcheck.exercises.answers import list_answers
from headcheck.grader.report.records import Report, from_json, strip_seconds, to_json

SUBMISSIONS, KILLS, SEED = 2000, 20, 0
EXERCISE = BY_SLUG["multi_head_attention"]
ATTACKS = Path(__file__).parents[1] / "tests" / "hostile" / "attacks"
HOSTILE = (
    "exit_zero", "exit_zero_at_import", "system_exit", "segmentation_fault", "aborts",
    "imports_the_solution", "forges_the_report", "forges_results_on_every_descriptor",
    "hunts_through_frames", "hunts_through_modules", "reads_system_files", "rewrites_results",
    "connects_by_tcp", "runs_programs", "daemon", "fork_bomb", "fills_the_disk",
    "memory_bomb_at_import", "prints_forty_megabytes", "loops_at_import",
)  # fmt: skip
"""attacks whose outcome does not depend on how busy the machine is"""
BROKEN = (
    b"", b"def broken(:\n", b"\x00\x01\x02", b"%PDF-1.7", b"PK\x03\x04", b"import torch\n",
    b"raise SystemExit\n", b"class MultiHeadAttention: pass\n", "# täst\n".encode("latin-1"),
)  # fmt: skip
EXIT_S = 20.0


def main() -> None:
    """Grade twice, compare, print."""
    given = [int(argument) for argument in sys.argv[1:4]]
    count, kills, seed = [*given, *(SUBMISSIONS, KILLS, SEED)[len(given) :]]
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(*sys.argv[4:5] or [scratch])
        folder.mkdir(exist_ok=folder == Path(scratch))
        fill(folder / "class", count, seed)
        began = time.monotonic()
        finish(folder, "undisturbed")
        print(f"undisturbed: {count} submissions in {time.monotonic() - began:.0f} s")
        faults = disturb(folder, count, kills, random.Random(seed))
        began = time.monotonic()
        finish(folder, "killed")
        print(f"the rest after {kills} kills: {time.monotonic() - began:.0f} s")
        faults += compare(folder)
    for fault in faults:
        print(f"FAULT: {fault}")
    print("byte-identical" if not faults else "not the same")
    sys.exit(1 if faults else 0)


def fill(folder: Path, count: int, seed: int) -> None:
    """Write a class of `count` different files: half of them right, a fifth broken or hostile."""
    folder.mkdir()
    chance = random.Random(seed)
    right, wrong = (cycle_answers(kind, chance) for kind in ("right", "wrong"))
    broken, hostile = itertools.cycle(BROKEN), itertools.cycle(load_attacks())
    for i in range(count):
        name = f"student{i:04}"
        mark = f"\n# {i}\n"
        match i % 10:
            case 0 | 1 | 2 | 3 | 4:
                write_answer(folder / name, next(right) + mark, notebook=bool(i % 4 == 1))
            case 5 | 6 | 7:
                write_answer(folder / name, next(wrong) + mark, notebook=bool(i % 4 == 3))
            case 8:
                (folder / f"{name}.py").write_bytes(next(broken) + mark.encode())
            case _:
                write_answer(folder / name, next(hostile) + mark, notebook=False)


def cycle_answers(kind: str, chance: random.Random) -> Iterator[str]:
    """Yield the bank's answers of a kind, again and again, in a shuffled order."""
    texts = [answer.source for answer in list_answers(EXERCISE, kind)]
    chance.shuffle(texts)
    return itertools.cycle(texts)


def load_attacks() -> list[str]:
    """Return hostile answers; nothing that they try to reach exists here."""
    texts = [(ATTACKS / f"{name}.py").read_text(encoding="utf-8") for name in HOSTILE]
    marks = ("won", "token", "arena", "project", "tcp", "udp", "unix", "abstract")
    for mark in marks:
        texts = [text.replace(f"@{mark}@", f"/nonexistent/{mark}") for text in texts]
    return [text.replace("@grader@", "2").replace("@server@", "2") for text in texts]


def write_answer(path: Path, text: str, *, notebook: bool) -> None:
    """Write an answer as a module or as a notebook."""
    if not notebook:
        path.with_suffix(".py").write_text(text, encoding="utf-8")
        return
    cell = v4.new_code_cell(text, id="answer")
    nbformat.write(v4.new_notebook(cells=[cell]), path.with_suffix(".ipynb"))


def build_command(folder: Path, store: str) -> list[str]:
    """Return the command that is killed and run again."""
    return [
        *(sys.executable, "-m", "headcheck", "grade", str(folder / "class"), "--format", "json"),
        *("--store", str(folder / f"{store}.db"), "--exercise", EXERCISE.slug),
    ]


def finish(folder: Path, store: str) -> None:
    """Let the command finish, and keep its output."""
    done = subprocess.run(build_command(folder, store), check=False, stdout=subprocess.PIPE)
    if done.returncode != 1:
        sys.exit(f"exit code {done.returncode} where 1 was due: not everything passes")
    (folder / f"{store}.json").write_bytes(done.stdout)
    export = [sys.executable, "-m", "headcheck", "export", EXERCISE.slug, "--format", "csv"]
    told = ["--store", str(folder / f"{store}.db"), "--out", str(folder / f"{store}.csv")]
    subprocess.run([*export, *told], check=True)


def disturb(folder: Path, count: int, kills: int, chance: random.Random) -> list[str]:
    """Kill the command again and again; return what went wrong."""
    faults: list[str] = []
    finished = 0
    for target in sorted(chance.sample(range(count), kills)):
        whole = chance.random() < 0.5
        before = finished
        finished = run_and_kill(folder, target, chance.uniform(0, 2), whole, faults)
        what = "all processes" if whole else "the command"
        print(f"killed {what}: {before} were finished before, {finished} are", flush=True)
        if finished < before:
            faults.append(f"{before - finished} finished submissions were lost")
    return faults


def run_and_kill(folder: Path, target: int, moment: float, whole: bool, faults: list[str]) -> int:
    """Kill the command a moment after `target` submissions; return how many it finished."""
    process = subprocess.Popen(
        build_command(folder, "killed"), stdout=subprocess.DEVNULL, start_new_session=True
    )
    while process.poll() is None and count_judgements(folder / "killed.db") < target:
        time.sleep(0.05)
    time.sleep(moment)
    below = find_descendants(process.pid)
    if process.poll() is not None:
        faults.append("it ended by itself before it could be killed")
    elif whole:
        os.killpg(process.pid, signal.SIGKILL)
    else:
        process.kill()
    process.wait()
    left = wait_for_exit(below)
    faults.extend(f"process {pid} was left over" for pid in sorted(left))
    return count_judgements(folder / "killed.db")


def count_judgements(store: Path) -> int:
    """Return how many judgements a store holds."""
    if not store.exists():
        return 0
    try:
        with closing(sqlite3.connect(f"file:{store}?mode=ro", uri=True)) as connection:
            (count,) = connection.execute("SELECT count(*) FROM judgements").fetchone()
    except sqlite3.OperationalError:  # it is being made
        return 0
    return int(count)


def find_descendants(pid: int) -> set[int]:
    """Return all descendants of a process."""
    parents = {}
    for entry in Path("/proc").glob("[0-9]*/stat"):
        try:
            parents[int(entry.parent.name)] = int(entry.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    below, new = {pid}, {pid}
    while new := {child for child, parent in parents.items() if parent in below} - below:
        below |= new
    return below - {pid}


def wait_for_exit(pids: set[int]) -> set[int]:
    """Return those of these processes that still exist after some time."""
    limit = time.monotonic() + EXIT_S
    while time.monotonic() < limit:
        pids = {pid for pid in pids if is_alive(pid)}
        if not pids:
            break
        time.sleep(0.1)
    return pids


def is_alive(pid: int) -> bool:
    """Return whether a process exists and is not a zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def compare(folder: Path) -> list[str]:
    """Return the differences between the two gradings, if any."""
    both = [from_json((folder / f"{s}.json").read_bytes()) for s in ("undisturbed", "killed")]
    texts = [to_json(strip_seconds(report)).encode() for report in both]
    tables = [(folder / f"{s}.csv").read_bytes() for s in ("undisturbed", "killed")]
    for what, (one, other) in (("report", texts), ("export", tables)):
        digests = [hashlib.sha256(data).hexdigest()[:16] for data in (one, other)]
        print(f"{what}: {len(one)} bytes, SHA-256 {digests[0]}…; after the kills {digests[1]}…")
    faults = [] if tables[0] == tables[1] else ["the exports differ"]
    if texts[0] != texts[1]:
        faults += list(list_differences(*both))
    return faults


def list_differences(one: Report, other: Report) -> Iterator[str]:
    """Yield the first submissions about which two reports differ."""
    plain = [strip_seconds(report).submissions for report in (one, other)]
    different = [(a, b) for a, b in zip(*plain, strict=False) if a != b]
    yield f"{len(different)} records differ, of {len(one.submissions)}; {len(other.submissions)}"
    for a, b in different[:10]:
        claims = [
            f"{x.name}: {x.status}/{y.status} {x.message!r} / {y.message!r}"
            for x, y in zip(a.properties, b.properties, strict=False)
            if x != y
        ]
        yield f"{a.file}: {a.status}/{b.status} {a.error}/{b.error} {claims[:2]}"


if __name__ == "__main__":
    main()
