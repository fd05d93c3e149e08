"""Who slept, computed or waited for a processor is told by the kernel, and not by the child."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from headcheck.grader.sandbox import timing
from headcheck.grader.sandbox.grader_side.servers import ServerHandle
from headcheck.grader.sandbox.limits import Limits
from headcheck.grader.sandbox.timing import (
    NO_TIME,
    SAMPLE_INTERVAL_S,
    ChildTimer,
    OutOfPatience,
    ProcessTimes,
    RequestTime,
)
from headcheck.properties.violations.violation import SubmissionFailed
from tests.crowd import alone_with
from tests.grader.conftest import SandboxDriver

if sys.platform != "linux":
    pytest.skip("only Linux has schedstat", allow_module_level=True)

COMPUTE = "end = time.process_time() + 0.6\nwhile time.process_time() < end: pass\nreturn x"


def took(sandbox: SandboxDriver, body: str, limits: Limits | None = None) -> RequestTime:
    """What one call of a function with this body took."""
    session, module = sandbox.open_with_body(body, limits)
    try:
        sandbox.call(module)
    except SubmissionFailed:
        assert limits is not None, "only one with limits may be broken off"
    assert session.child is not None
    last = session.child.last_request_time
    session.close()
    return last


def test_sleeping_is_idle(sandbox: SandboxDriver) -> None:
    slept = took(sandbox, "time.sleep(0.6)\nreturn x")
    assert slept.idle == pytest.approx(slept.own, abs=0.2)
    assert 0.4 < slept.idle < 0.7


def test_computing_is_not_idle(sandbox: SandboxDriver) -> None:
    computed = took(sandbox, COMPUTE)
    assert 0.55 < computed.own < 0.9
    assert computed.idle < 0.2


def test_aborted_call_is_counted(sandbox: SandboxDriver) -> None:
    slept = took(sandbox, "time.sleep(60)", Limits(call_s=0.6))
    assert 0.4 < slept.idle < 0.9
    looped = took(sandbox, "while True: pass", Limits(call_s=0.6))
    assert looped.idle < 0.2


def test_sleep_before_exit_is_counted(sandbox: SandboxDriver) -> None:
    slept = took(sandbox, "time.sleep(0.6)\nos._exit(0)", Limits())
    assert 0.4 < slept.idle < 0.8


def test_waiting_for_a_processor_is_neither_own_nor_idle_and_makes_no_call_late() -> None:
    """Beside four others on one processor 0.6 seconds take three on the wall; the limit is one."""
    from tests.grader.conftest import SandboxDriver

    with alone_with(4), ServerHandle() as server:
        computed = took(SandboxDriver(server), COMPUTE, Limits(call_s=1.0))
    assert 0.55 < computed.own < 1.0
    assert computed.idle < 0.3


def test_a_child_that_gets_no_processor_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """It queued all the time, so its time is not used up, and yet the wait ends."""
    clock = iter(range(1, 1000))
    monkeypatch.setattr(
        timing, "read_process_times", lambda pid: ProcessTimes(0.0, float(next(clock)))
    )
    waiting = ChildTimer(os.getpid())
    waiting.begin(0.01)
    time.sleep(0.02)
    assert waiting.wait_more() == timing.MIN_WAIT_S
    monkeypatch.setattr(timing, "compute_patience", lambda limit, *, blind: 0.02)
    with pytest.raises(OutOfPatience):
        waiting.wait_more()


def test_patience_is_far_longer_than_any_limit() -> None:
    assert timing.compute_patience(10.0) == 600.0
    assert timing.compute_patience(60.0) == 3600.0
    assert timing.compute_patience(10.0, blind=True) == 40.0


def test_grader_computation_is_not_charged_to_the_child() -> None:
    of_nobody = ChildTimer(os.getpid())
    of_nobody._waited = SAMPLE_INTERVAL_S
    of_nobody._computed_here = SAMPLE_INTERVAL_S
    of_nobody.begin(9.0)
    assert of_nobody.end(ProcessTimes(0.0, 0.0)).idle < 0.05


def test_short_requests_are_added_up() -> None:
    added = ChildTimer(os.getpid())
    added.begin(9.0)
    assert added.end(None) is NO_TIME


@pytest.mark.parametrize("text", [None, "", "no number at all"])
def test_without_kernel_statistics_nothing_is_idle(text: str | None, tmp_path: Path) -> None:
    (tmp_path / "task" / "1").mkdir(parents=True)
    if text is not None:
        (tmp_path / "task" / "1" / "schedstat").write_text(text)
    assert timing.read_queued_time(tmp_path) is None
    blind = ChildTimer(os.getpid())
    blind._waited = 9.0
    blind.begin(9.0)
    assert blind.end(ProcessTimes(2.0, None)) == RequestTime(own=2.0, idle=0.0)


def test_a_process_that_is_gone_has_no_times() -> None:
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    assert timing.read_process_times(gone.pid) == ProcessTimes(0.0, None)
