"""Where an attack takes place, and the witnesses who say afterwards whether it won.

An arena is a folder that everyone may write, listeners on sockets of four kinds, and a grader
process (`grader_process.py`) with a secret in its environment. `Arena.attack` grades one attack,
asks every witness, and gives the list of what it won; the list is empty if it was contained.
"""

import contextlib
import json
import os
import select
import shutil
import site
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import headcheck
from tests.hostile.corpus import QUICK, TWINS, Attack
from tests.hostile.listeners import Listeners
from tests.hostile.users import NOBODY, build_user_options, find_interpreter

ROOT = Path(headcheck.__path__[0]).parent
TESTS = Path(__file__).parents[1]
SECRET = "HEADCHECK_SECRET"
START_S = 120.0
PATIENCE_S = 45.0
SHARED_FOLDERS = ("/tmp", "/var/tmp", "/dev/shm", "/run", "/", str(ROOT))
SYSTEM_V_KEY = str(0x48434B)
SYSTEM_V = [Path("/proc/sysvipc", kind) for kind in ("shm", "sem", "msg")]
MEMORY_GROWTH = 200 << 20
LONGEST = 50_000


class GraderGone(Exception):
    """The grader no longer answers."""


class SandboxBroken(Exception):
    """The grader answers that its sandbox does not work."""


@dataclass(frozen=True, slots=True)
class ArenaSetting:
    """Under which rung, with which layer left out, and as whom a grader process runs."""

    level: str = "A"
    user: int | None = None
    without: tuple[str, ...] = ()

    def __str__(self) -> str:
        who = "root" if (os.geteuid() if self.user is None else self.user) == 0 else "user"
        return "-without-".join((f"{self.level}-{who}", *self.without))


class Arena:
    """A folder, listeners and a grader process. Use as a context manager."""

    def __init__(self, setting: ArenaSetting = ArenaSetting()) -> None:
        self.setting = setting
        self.folder = Path(tempfile.mkdtemp(prefix="headcheck-arena-"))
        self.secret = os.urandom(8).hex()
        self.honest_scores: dict[str, float] = {}
        self.spoiled = False
        self.furnish()
        self.listeners = Listeners(self.folder)
        self._start()
        self.before = self.snapshot()

    # ------------------------------------------------------------------ the grader

    def _start(self) -> None:
        options = json.dumps({"rung": self.setting.level, "without": self.setting.without})
        program = str(Path(__file__).with_name("grader_process.py"))
        self.process = subprocess.Popen(
            [find_interpreter(self.setting.user), "-P", program, options, "--marker", self.secret],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={
                "PATH": "/usr/bin:/bin",
                "HOME": "/",
                "PYTHONPATH": os.pathsep.join([str(ROOT), str(TESTS.parent)]),
                "PYTHONDONTWRITEBYTECODE": "1",
                "OMP_NUM_THREADS": "1",
                SECRET: self.secret,
            },
            cwd="/",
            start_new_session=True,
            **build_user_options(self.setting.user),
        )
        self.unread = b""
        try:
            self.state = self._answer(START_S)
        except GraderGone:
            self.close()
            raise

    def ask(self, **request: Any) -> dict[str, Any]:
        """One request to the grader. Raises Gone."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(json.dumps(request).encode() + b"\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise GraderGone("the grader has ended") from None
        return self._answer()

    def _answer(self, within: float = PATIENCE_S) -> dict[str, Any]:
        assert self.process.stdout is not None
        limit = time.monotonic() + within
        while b"\n" not in self.unread:
            if not select.select([self.process.stdout], [], [], max(limit - time.monotonic(), 0))[
                0
            ]:
                raise GraderGone(f"the grader said nothing for {within:g} s")
            more = os.read(self.process.stdout.fileno(), 1 << 20)
            if not more:
                raise GraderGone(f"the grader has ended: {self.process.wait()}")
            self.unread += more
        line, _, self.unread = self.unread.partition(b"\n")
        reply: dict[str, Any] = json.loads(line)
        return reply

    def revive(self) -> None:
        """A new grader in place of one that an attack has ended."""
        self._end()
        self._start()
        self.spoiled = False

    def _end(self) -> None:
        for stream in (self.process.stdin, self.process.stdout):
            if stream is not None:
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def close(self) -> None:
        self._end()
        self.listeners.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ the folder

    def furnish(self) -> None:
        """Put the folder in order: but for one file, it may be written by everyone."""
        for entry in self.folder.iterdir():
            if stat.S_ISDIR(entry.lstat().st_mode):
                shutil.rmtree(entry)
            elif not stat.S_ISSOCK(entry.lstat().st_mode):
                entry.unlink()
        (self.folder / "submissions").mkdir()
        (self.folder / "empty").mkdir()
        texts = {"canary": "alive\n", "results.json": '{"score": 1}\n'}
        texts["submissions/ada.py"] = f"# {self.secret}\n"
        for name, text in texts.items():
            (self.folder / name).write_text(text)
        self._open_to_all()
        private = self.folder / "private"
        private.touch(0o600)

    def _open_to_all(self) -> None:
        for path in (self.folder, *self.folder.rglob("*")):
            if not stat.S_ISSOCK(path.lstat().st_mode):
                path.chmod(0o777 if path.is_dir() else 0o666)
                if os.geteuid() == 0:
                    os.chown(path, NOBODY, NOBODY)

    def snapshot(self) -> dict[str, tuple[Any, ...]]:
        """Everything about the folder that an attack could change."""
        return {str(path): self._stat_file(path) for path in sorted(self.folder.rglob("*"))}

    def _stat_file(self, path: Path) -> tuple[Any, ...]:
        at = path.lstat()
        text = path.read_bytes() if stat.S_ISREG(at.st_mode) else b""
        more = os.listxattr(path, follow_symlinks=False) if sys.platform == "linux" else []
        return at.st_mode, at.st_uid, at.st_gid, at.st_nlink, at.st_mtime_ns, text, more

    # ------------------------------------------------------------------ an attack

    def build_placeholders(self, token: str) -> Mapping[str, str]:
        """What the marks in an attack's source stand for."""
        return {
            "@won@": f"won-{token}",
            "@token@": f"hc{token}",
            "@arena@": str(self.folder),
            "@grader@": str(self.state["pid"]),
            "@server@": str(self.state["server"]),
            "@project@": str(ROOT),
            **self.listeners.placeholders,
        }

    def fill_placeholders(self, source: str, token: str) -> str:
        """The source of an attack with its marks filled in."""
        for mark, value in self.build_placeholders(token).items():
            source = source.replace(mark, value)
        return source

    def grade(
        self, source: str, limits: Mapping[str, float] = QUICK, token: str = ""
    ) -> dict[str, Any]:
        """What the grader answers about a submission whose marks are filled in.

        Raises Gone, Broken.
        """
        with tempfile.TemporaryDirectory(prefix="headcheck-in-") as folder:
            Path(folder).chmod(0o755)
            handed_in = Path(folder, "submission.py")
            handed_in.write_text(self.fill_placeholders(source, token), "utf-8")
            reply = self.ask(op="grade", path=str(handed_in), limits=dict(limits))
        if "fault" in reply:
            raise SandboxBroken(f"the sandbox broke: {reply['fault']}")
        return reply

    def get_honest_score(self, twin: str) -> float:
        """What an answer with the same faults gets that hides none of them. Raises Gone, Broken."""
        if twin not in self.honest_scores:
            [record] = self.grade(TWINS[twin])["records"]
            self.honest_scores[twin] = record["score"]
        return self.honest_scores[twin]

    def attack(self, attack: Attack) -> list[str]:
        """What an attack won: nothing if it was contained."""
        if self.spoiled:  # by an earlier attack that won
            self.revive()
        token = os.urandom(6).hex()
        won: list[str] = []
        try:
            for _ in range(attack.times):
                reply = self.grade(attack.source, attack.limits, token)
                won += self.check_record(reply, attack) + self.check_side_effects(reply, token)
            won += self.check_next_submission()
        except (GraderGone, SandboxBroken) as gone:
            won += [str(gone), *self.check_side_effects({}, token)]
            self.spoiled = True
        return list(dict.fromkeys(won))

    def check_record(self, reply: Mapping[str, Any], attack: Attack) -> list[str]:
        """What is wrong with the record of an attack. Raises Gone, Broken."""
        won = []
        for record in reply["records"]:
            shown = f"{record['score']:g}/{record['max_score']:g} {record['status']}"
            if record["status"] not in set(attack.statuses):
                expected = " or ".join(sorted(attack.statuses))
                won.append(f"recorded as {shown}, not {expected}: {join_messages(record)[:300]}")
            if attack.twin and record["score"] > self.get_honest_score(attack.twin):
                won.append(
                    f"forged points: {shown}, honestly {self.get_honest_score(attack.twin):g}"
                )
            if record["status"] == "passed" and record["score"] < record["max_score"]:
                won.append(f"passed without full marks: {shown}")
        return won

    def check_side_effects(self, reply: Mapping[str, Any], token: str) -> list[str]:
        """What the witnesses saw; they are put back in their places."""
        text = json.dumps(strip_source(reply.get("records", reply.get("said", ""))))
        won = [f"it announced success: {text[:600]}"] if f"won-{token}" in text else []
        won += ["the secret is in its record"] * (self.secret in text)
        won += [f"its record takes {len(text)} characters"] * (len(text) > LONGEST)
        won += [f"left over: {line}" for line in reply.get("left", ())]
        won += self.listeners.collect_contacts()
        won += self._check_folder()
        won += [f"left behind: {path}" for path in remove_traces(token)]
        changed = self._check_grader(reply)
        self.spoiled = self.spoiled or bool(changed)
        return won + changed

    def _check_folder(self) -> list[str]:
        after = self.snapshot()
        names = self.before.keys() | after.keys()
        won = [f"changed: {n}" for n in sorted(names) if self.before.get(n) != after.get(n)]
        if won:
            self.furnish()
            self.before = self.snapshot()
        return won

    def _check_grader(self, reply: Mapping[str, Any]) -> list[str]:
        fixed = sorted(self.state.keys() - {"pid", "server", "own", "rung", "missing", "memory"})
        won = [
            f"the grader's {name} went from {self.state[name]} to {reply[name]}"
            for name in fixed
            if name in reply and reply[name] != self.state[name]
        ]
        if "memory" in reply and reply["memory"] > self.state["memory"] + MEMORY_GROWTH:
            won.append(f"the grader grew to {reply['memory']} bytes")
        return won

    def check_next_submission(self) -> list[str]:
        """What is wrong with how a good submission is judged afterwards. Raises Gone, Broken."""
        record = self.grade(TWINS["right"])["records"][0]
        if record["status"] == "passed" and record["score"] == record["max_score"]:
            return []
        return [f"the next good submission {record['status']}: {join_messages(record)[:300]}"]


def strip_source(records: Any) -> Any:
    """What is said of a submission, without the lines of its own that are shown beside."""
    if not isinstance(records, list):
        return records
    return [{name: told for name, told in each.items() if name != "source"} for each in records]


def join_messages(record: Mapping[str, Any]) -> str:
    """What a record says went wrong."""
    error = (record.get("error") or {}).get("message", "")
    return " | ".join(filter(None, [error, *(p["message"] for p in record["properties"])]))


def remove_traces(token: str) -> Iterator[str]:
    """Whatever bears an attack's token outside of its folder; it is removed."""
    folders = {*SHARED_FOLDERS, *site.getsitepackages(), str(Path.home())}
    for folder in sorted(folders):
        for path in Path(folder).glob(f"*hc{token}*"):
            yield str(path)
            if path.is_dir() and not path.is_symlink():
                shutil.rmtree(path)
            else:
                path.unlink()
    for table in SYSTEM_V:
        if table.exists() and SYSTEM_V_KEY in table.read_text().split():
            yield f"something in {table}"
