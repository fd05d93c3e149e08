"""Who slept, computed or waited for a processor is told by the kernel, and not by the child."""

import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from grader.sandbox import timing
from grader.sandbox.grader_side.servers import Server
from grader.sandbox.limits import Limits
from grader.sandbox.timing import LOOK_S, NOTHING, Pace, Ran, Took
from properties.violation import SubmissionFailed

if TYPE_CHECKING:
    from tests.grader.conftest import Sandbox

if sys.platform != "linux":
    pytest.skip("only Linux has schedstat", allow_module_level=True)

COMPUTE = "end = time.process_time() + 0.6\nwhile time.process_time() < end: pass\nreturn x"


def took(sandbox: "Sandbox", body: str, limits: Limits | None = None) -> Took:
    """What one call of a function with this body took."""
    session, module = sandbox.opened_with(body, limits)
    try:
        sandbox.called(module)
    except SubmissionFailed:
        assert limits is not None, "only one with limits may be broken off"
    assert session.child is not None
    last = session.child.took
    session.close()
    return last


@contextmanager
def alone_with(others: int) -> Iterator[None]:
    """This process, and what it starts, on one processor, with others that compute there."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(before)})
    spin = [sys.executable, "-c", "while True: pass"]
    started = [subprocess.Popen(spin) for _ in range(others)]
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
        for process in started:
            process.kill()
            process.wait()


def test_sleeping_is_idle(sandbox: "Sandbox") -> None:
    slept = took(sandbox, "time.sleep(0.6)\nreturn x")
    assert slept.idle == pytest.approx(slept.own, abs=0.2)
    assert 0.4 < slept.idle < 0.7


def test_computing_is_not(sandbox: "Sandbox") -> None:
    computed = took(sandbox, COMPUTE)
    assert 0.55 < computed.own < 0.9
    assert computed.idle < 0.2


def test_what_is_broken_off_is_counted(sandbox: "Sandbox") -> None:
    slept = took(sandbox, "time.sleep(60)", Limits(call_s=0.6))
    assert 0.4 < slept.idle < 0.9
    looped = took(sandbox, "while True: pass", Limits(call_s=0.6))
    assert looped.idle < 0.2


def test_who_sleeps_and_then_ends_itself_has_slept(sandbox: "Sandbox") -> None:
    slept = took(sandbox, "time.sleep(0.6)\nos._exit(0)", Limits())
    assert 0.4 < slept.idle < 0.8


def test_waiting_for_a_processor_is_neither() -> None:
    """The same computation beside three others on one processor takes four times as long."""
    from tests.grader.conftest import Sandbox

    with alone_with(3), Server() as server:
        computed = took(Sandbox(server), COMPUTE)
    assert computed.own < 1.0
    assert computed.idle < 0.3


def test_what_the_examiner_computes_meanwhile_is_not_the_child_s() -> None:
    of_nobody = Pace(os.getpid())
    of_nobody._waited = LOOK_S
    of_nobody._computed_here = LOOK_S
    of_nobody.begin()
    assert of_nobody.end(Ran(0.0, 0.0)).idle < 0.05


def test_short_requests_are_added_up() -> None:
    added = Pace(os.getpid())
    added.begin()
    assert added.end(None) is NOTHING


@pytest.mark.parametrize("text", [None, "", "no number at all"])
def test_where_the_kernel_does_not_tell_nothing_is_idle(text: str | None, tmp_path: Path) -> None:
    if text is not None:
        (tmp_path / "schedstat").write_text(text)
    assert timing.queued(tmp_path) is None
    blind = Pace(os.getpid())
    blind._waited = 9.0
    blind.begin()
    assert blind.end(Ran(2.0, None)) == Took(own=2.0, idle=0.0)


def test_a_process_that_is_gone_has_no_times() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert timing.process(gone.pid) == Ran(0.0, None)
