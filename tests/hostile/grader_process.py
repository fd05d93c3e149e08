"""A grader process of its own, so that an attack may win against it and be seen to win.

It grades what it is told on standard input, one JSON object a line, and answers on standard
output. Run as: python grader_process.py OPTIONS, where OPTIONS is a JSON object.

It is a subreaper: whatever a submission starts and leaves behind becomes its child, and is counted.
"""

import ctypes
import json
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import torch

from headcheck.exercises import BY_SLUG, Exercise
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.reading.submission import SubmissionNotFound, find_submissions
from headcheck.grader.sandbox.grader_side.servers import SandboxError, ServerHandle
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.grader.sandbox.isolation import Layer
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.property import Property
from headcheck.properties.subject import CallOptions
from headcheck.properties.violations.violation import SubmissionFailed
from tests.hostile.layers import leave_out

CLAIMS = (
    "it_can_be_constructed",
    "it_attends",
    "the_input_is_left_unchanged",
    "it_equals_the_equation",
    "the_future_is_invisible",
    "the_gradient_of_the_input_is_right",
    "a_deep_copy_gives_the_same_output",
)
MISSING_LAYERS = {"A": (), "B": ("namespaces",), "B-": ("namespaces", "scopes")}
"""what a machine of each rung lacks"""
PR_SET_CHILD_SUBREAPER = 36
LINGERING_S = 4.0
ARGUMENTS = {"d_in": 4, "d_out": 4, "context_length": 4, "dropout": 0.0, "num_heads": 2}


class ShortExercise(Exercise):
    """An exercise with a few of its claims, so that an attack takes moments."""

    @cached_property
    def properties(self) -> tuple[Property, ...]:
        return tuple(p for p in super().properties if p.name in CLAIMS)


def shorten_exercise(slug: str) -> Exercise:
    """The exercise with few claims and cases."""
    whole = BY_SLUG[slug]
    return ShortExercise(whole.slug, whole.title, whole.contract, whole.folder, cases=2)


def start_server(options: Mapping[str, Any]) -> ServerHandle:
    """A fork server of the rung that is wanted, perhaps with layers left out."""
    known = {layer.value for layer in Layer}
    without = [
        Layer(n) for n in (*MISSING_LAYERS[options["rung"]], *options["without"]) if n in known
    ]
    leave_out(set(options["without"]) - known)
    return ServerHandle(trusted=bool(options["without"]), without=without)


@dataclass
class GraderProcess:
    """Answers requests."""

    server: ServerHandle
    exercise: Exercise

    def answer(self, request: Mapping[str, Any]) -> dict[str, Any]:
        limits = Limits(**request.get("limits", {}))
        try:
            reply = getattr(self, request["op"])(request, limits)
        except SandboxError as error:
            reply = {"fault": str(error)}
        left = self.end_leftovers()
        return {**reply, "left": left, **self.get_state()}

    def grade(self, request: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        """The record of one file, as JSON."""
        settings = Settings(self.exercise, limits)
        try:
            handed_in = find_submissions([request["path"]])
        except SubmissionNotFound as error:
            problem = {"message": str(error)}
            return {"records": [{"error": problem, "score": 0.0, "status": "", "properties": []}]}
        records = [
            record
            for one in handed_in
            for record in grade_file_or_raise(self.server, one, settings)
        ]
        return {"records": [asdict(record) for record in records]}

    def race(self, request: Mapping[str, Any], limits: Limits) -> dict[str, Any]:
        """What each of several submissions said when all were alive at the same time."""
        sessions, reply = [], []
        for path in request["paths"]:
            session = Session(self.server, Path(path).read_bytes(), "py", limits)
            sessions.append(session)
            try:
                session.load("MultiHeadAttention")
                made = ChannelSubject(session).construct("MultiHeadAttention", ARGUMENTS, 0)
                made.forward([torch.zeros(1, 2, 4)], CallOptions())
                reply.append("")
            except SubmissionFailed as failed:
                reply.append(str(failed))
        for session in sessions:
            session.close()
        return {"said": reply}

    def get_state(self) -> dict[str, Any]:
        """What an attack may have changed about this process."""
        names = [name for name in dir(resource) if name.startswith("RLIMIT_")]
        return {
            **{name: resource.getrlimit(getattr(resource, name)) for name in names},
            "nice": os.getpriority(os.PRIO_PROCESS, 0),
            "processors": sorted(os.sched_getaffinity(0)),
            "scheduler": os.sched_getscheduler(0),
            "descriptors": len(os.listdir("/proc/self/fd")),  # noqa: PTH208  # names are enough
            "memory": int(Path("/proc/self/statm").read_text().split()[1]) * 4096,
        }

    def end_leftovers(self) -> list[str]:
        """The command lines of processes that outlived their submission; they are ended."""
        limit = time.monotonic() + LINGERING_S
        while (
            left := set(find_descendants(os.getpid())) - self.own_processes
        ) and time.monotonic() < limit:
            time.sleep(0.01)
        lines = [f"{pid}: {get_command_line(pid)}" for pid in left]
        for pid in left:
            try:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
            except (ProcessLookupError, ChildProcessError):
                pass
        return lines

    @cached_property
    def own_processes(self) -> set[int]:
        """The fork server, and what it needs for itself."""
        return set(find_descendants(os.getpid()))


def find_descendants(top: int) -> Iterator[int]:
    """The living processes that descend from one."""
    parents: dict[int, list[int]] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        try:
            state, parent = (entry / "stat").read_text().rpartition(")")[2].split()[:2]
        except (FileNotFoundError, ProcessLookupError):
            continue
        if state != "Z":
            parents.setdefault(int(parent), []).append(int(entry.name))
    todo = [top]
    while todo:
        children = parents.get(todo.pop(), [])
        yield from children
        todo += children


def get_command_line(pid: int) -> str:
    """The command line of a process."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode()
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


def main(options: Mapping[str, Any]) -> None:
    """Answer until standard input ends."""
    if ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0):
        raise SystemExit("cannot become a subreaper")
    torch.set_num_threads(1)
    replies = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with start_server(options) as fork_server:
        grader_process = GraderProcess(fork_server, shorten_exercise("multi_head_attention"))
        ready = {
            "pid": os.getpid(),
            "server": fork_server.process.pid,
            "own": sorted(grader_process.own_processes),
            "rung": fork_server.isolation_level.name,
            "missing": [
                f"{each.layer}: {each.why}" for each in fork_server.isolation_level.missing
            ],
        }
        print(json.dumps({**ready, **grader_process.get_state()}), file=replies, flush=True)
        for line in sys.stdin:
            print(json.dumps(grader_process.answer(json.loads(line))), file=replies, flush=True)


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
