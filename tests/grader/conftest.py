"""A sandbox for the tests of this folder: one server for all, and what is asked of it often."""

import sys
import textwrap
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from headcheck.exercises import BY_SLUG
from headcheck.grader.grading.grade import grade_file_or_raise
from headcheck.grader.grading.settings import Settings
from headcheck.grader.grading.worker_pool import Sandbox
from headcheck.grader.reading.submission import find_submissions
from headcheck.grader.report.records import SubmissionRecord
from headcheck.grader.sandbox.grader_side.in_process import UnconfinedSandbox
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.grader.sandbox.grader_side.session import Session
from headcheck.grader.sandbox.grader_side.subject import ChannelSubject
from headcheck.grader.sandbox.isolation import Layer
from headcheck.grader.sandbox.limits import Limits
from headcheck.properties.subject import CallOptions, CallResult, Module
from headcheck.properties.violations.violation import SubmissionFailed
from tests.commands import headcheck
from tests.notebooks import write_notebook
from tests.servers import ConnectZygote

__all__ = ["headcheck"]

CANARY = "HEADCHECK_TEST_CANARY"
GOOD = "def wanted(x):\n    return 2 * x\n"
IMPORTS = "import os, resource, signal, struct, sys, time, torch\n"


@dataclass(frozen=True)
class SandboxDriver:
    """A server, and functions named `wanted` in children of it."""

    server: ServerHandle

    def open_session(self, text: str, limits: Limits | None = None) -> tuple[Session, Module]:
        """A session with a submission of its own, loaded."""
        data = textwrap.dedent(text).encode()
        session = Session(self.server, data, "py", limits or Limits())
        session.load("wanted")
        return session, ChannelSubject(session).get_function("wanted")

    def open_with_body(self, body: str, limits: Limits | None = None) -> tuple[Session, Module]:
        """The same, given the body of the function; its first line is line 3."""
        indented = textwrap.indent(textwrap.dedent(body).strip(), "    ")
        return self.open_session(f"{IMPORTS}def wanted(x):\n{indented}\n", limits)

    def call(self, module: Module) -> CallResult:
        return module.forward([torch.tensor([1.0, 2.0])], CallOptions())

    def is_good(self) -> bool:
        """Whether a right submission is found right."""
        session, module = self.open_session(GOOD)
        outputs = self.call(module).outputs
        session.close()
        return [o.tolist() for o in outputs] == [[2.0, 4.0]]

    def get_failure(self, body: str, limits: Limits | None = None) -> SubmissionFailed:
        """How a call of a function with this body fails; afterwards everything is as before."""
        session, module = self.open_with_body(body, limits)
        with pytest.raises(SubmissionFailed) as caught:
            self.call(module)
        session.close()
        assert self.wait_until_gone(self.find_descendants()), "a process is left over"
        assert self.is_good()
        return caught.value

    def evaluate(self, expression: str) -> str:
        """What an expression is worth inside."""
        session, module = self.open_with_body(f"raise ValueError({expression})")
        with pytest.raises(SubmissionFailed) as caught:
            self.call(module)
        session.close()
        return caught.value.message.removeprefix("ValueError: ")

    def find_descendants(self, pid: int | None = None) -> set[int]:
        """The processes that a process started (the server does), and those that they started."""
        pids = [int(entry.name) for entry in Path("/proc").glob("[0-9]*")]
        parents = {p: int(known[1]) for p in pids if (known := _read_status(p))}
        top = self.server.process.pid if pid is None else pid
        found = {top}
        while below := {p for p, parent in parents.items() if parent in found} - found:
            found |= below
        return found - {top}

    def wait_until_gone(self, pids: set[int], within: float = 10.0) -> bool:
        """Whether processes end within some seconds."""
        limit = time.monotonic() + within
        while any(map(is_alive, pids)):
            if time.monotonic() > limit:
                return False
            time.sleep(0.02)
        return True


def _read_status(pid: int) -> list[str]:
    """The state of a process, its parent and more; nothing if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except (FileNotFoundError, ProcessLookupError):
        return []


def is_alive(pid: int) -> bool:
    """Whether a process is there, or has ended unseen by a parent that should have looked."""
    known = _read_status(pid)
    return bool(known) and not (known[0] == "Z" and known[1] == "1")


@pytest.fixture(scope="session")
def sandbox(connect_zygote: ConnectZygote) -> Iterator[SandboxDriver]:
    """A sandbox in an environment with a secret; who damages it takes `own_sandbox`."""
    if sys.platform != "linux":
        pytest.skip("pidfd and /proc are Linux's")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CANARY, "a secret of the grader's")
        with ServerHandle(ahead=connect_zygote()) as server:
            yield SandboxDriver(server)


@pytest.fixture
def own_sandbox() -> Iterator[SandboxDriver]:
    """A sandbox of a test's own, to be damaged."""
    if sys.platform != "linux":
        pytest.skip("pidfd and /proc are Linux's")
    with ServerHandle() as server:
        yield SandboxDriver(server)


WITHOUT: dict[str, tuple[Layer, ...]] = {
    "A": (),
    "B": (Layer.NAMESPACES,),
    "B-": (Layer.NAMESPACES, Layer.SCOPES),
}


@pytest.fixture(scope="session", params=list(WITHOUT))
def level(request: pytest.FixtureRequest) -> str:
    """Every rung that confines, in turn."""
    return str(request.param)


@pytest.fixture(scope="session")
def confined_sandbox(level: str, connect_zygote: ConnectZygote) -> Iterator[SandboxDriver]:
    """A sandbox on that rung; skipped where the machine has no such."""
    if sys.platform != "linux":
        pytest.skip("pidfd and /proc are Linux's")
    ahead = connect_zygote()
    with ServerHandle(trusted=True, without=WITHOUT[level], ahead=ahead) as server:
        if server.isolation_level.name != level:
            pytest.skip(f"this machine is on rung {server.isolation_level.name}, not {level}")
        yield SandboxDriver(server)


def choose_place(request: pytest.FixtureRequest, settings: Settings) -> Sandbox:
    """A sandbox where a test sets limits or is marked `confined`; else this process.

    The verdicts are the same (`batch/test_same_verdicts.py`), and cost a quarter less.
    """
    limited = settings.limits != Limits() or settings.limit_overrides
    if limited or request.node.get_closest_marker("confined"):
        driver: SandboxDriver = request.getfixturevalue("sandbox")
        return driver.server
    return UnconfinedSandbox("a process is not the point of this test")


GradeNotebook = Callable[..., dict[str, SubmissionRecord]]


@pytest.fixture
def grade_notebook(request: pytest.FixtureRequest, tmp_path: Path) -> GradeNotebook:
    """Grades a notebook of these cells; the records by the names that were judged."""

    def grade_cells(
        *cells: str, slug: str | None = None, limits: Limits | None = None
    ) -> dict[str, SubmissionRecord]:
        path = tmp_path / "ada.ipynb"
        path.write_bytes(write_notebook(*(textwrap.dedent(cell).strip("\n") for cell in cells)))
        exercise = BY_SLUG[slug] if slug else None
        settings = Settings(exercise=exercise, limits=limits or Limits())
        [handed_in] = find_submissions([str(path)])
        records = grade_file_or_raise(choose_place(request, settings), handed_in, settings)
        return {record.name or "": record for record in records}

    return grade_cells


GradeText = Callable[..., SubmissionRecord]
GradeAll = Callable[..., Sequence[SubmissionRecord]]


@pytest.fixture
def grade_all(request: pytest.FixtureRequest, tmp_path: Path) -> GradeAll:
    """Grades all definitions of a module."""

    def grade(text: str, settings: Settings | None = None) -> Sequence[SubmissionRecord]:
        (tmp_path / "ada.py").write_text(text, encoding="utf-8")
        [handed_in] = find_submissions([str(tmp_path / "ada.py")])
        settings = settings or Settings()
        return grade_file_or_raise(choose_place(request, settings), handed_in, settings)

    return grade


@pytest.fixture
def grade_text(grade_all: GradeAll) -> GradeText:
    """Grades a module in which one definition is judged."""

    def grade(text: str, settings: Settings | None = None) -> SubmissionRecord:
        [record] = grade_all(text, settings)
        return record

    return grade
